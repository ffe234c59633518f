// Package txn is producer ids and transactions: who may write in which transaction, and the markers that
// end it. The handlers pass requests through, partitions ask it to confirm transactional appends. It
// knows no connections, and of consumer groups only what it needs to end their part of a transaction.
package txn
