package broker

import (
	"context"
	"path/filepath"

	"github.com/hawserio/hawser/event"
)

// auditKey is the config that says where the audit log is.
const auditKey = "hawser.audit.log"

// openAudit opens the audit log: audit.log in the data directory unless another file, or none, is configured.
func (b *Broker) openAudit(context.Context) error {
	path := filepath.Join(b.cfg.Dir, "audit.log")
	if text, is := b.cfg.Settings[auditKey]; is {
		if text == "" {
			return nil
		}
		path = text
	}
	log, err := event.OpenAudit(path)
	if err != nil {
		return err
	}
	b.auditLog = log
	b.onClose(log.Close)
	return nil
}

// recordOrder puts an order on record. One that cannot be is carried out all the same: a full disk must not
// keep an operator from failing over.
func (b *Broker) recordOrder(o event.Order) {
	if err := b.auditLog.Record(o); err != nil {
		b.log.Error("an order is not on record", "order", o.Verb, "principal", o.Principal, "error", err)
	}
}
