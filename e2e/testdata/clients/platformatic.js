// @platformatic/kafka, driven as Client.java says. NODE_PATH names the folder it is installed in.
// The client is made for Node 22; what it uses of that, Node 20 is given here.
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((a, b) => { resolve = a; reject = b })
  return { promise, resolve, reject }
}
const { Admin, Consumer, Producer, MessagesStreamModes, MessagesStreamFallbackModes, stringDeserializers, stringSerializers } = require('@platformatic/kafka')

const [mode, bootstrap, topic, ...rest] = process.argv.slice(2)
const common = { clientId: 'matrix', bootstrapBrokers: [bootstrap], retries: 50, retryDelay: 200, connectTimeout: 2000 }

async function create(partitions) {
  const admin = new Admin(common)
  await admin.createTopics({ topics: [topic], partitions: Number(partitions), replicas: 1 })
  await admin.close()
}

async function produce(codec, prefix, n) {
  const producer = new Producer({ ...common, serializers: stringSerializers, compression: codec })
  const keys = Array.from({ length: Number(n) }, (_, i) => `${prefix}-${i}`)
  for (let at = 0; at < keys.length; at += 100) {
    await producer.send({ messages: keys.slice(at, at + 100).map(key => ({ topic, key, value: `${key}/`.repeat(8) })) })
  }
  await producer.close()
}

async function member(groupId) {
  const consumer = new Consumer({ ...common, groupId, deserializers: stringDeserializers, maxWaitTime: 200, sessionTimeout: 10000, heartbeatInterval: 500 })
  const own = () => console.log('own ' + (consumer.assignments || []).filter(a => a.topic === topic).flatMap(a => a.partitions).sort().join(','))
  consumer.on('consumer:group:join', own)
  consumer.on('consumer:group:rebalance', () => console.log('own '))
  const stream = await consumer.consume({ topics: [topic], autocommit: 200, mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST })
  stream.on('data', m => console.log(`got ${m.partition} ${m.offset} ${m.key} ${m.value}`))
  stream.on('error', e => { console.error(e); process.exit(1) })
  await new Promise(end => process.stdin.on('data', end))
  await stream.close()
  await consumer.close(true)
}

({ create, produce, member })[mode](...rest).then(() => { console.log('done'); process.exit(0) }, e => { console.error(e); process.exit(1) })
