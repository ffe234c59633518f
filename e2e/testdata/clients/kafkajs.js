// kafkajs, driven as Client.java says. NODE_PATH names the folder it is installed in.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const [mode, bootstrap, topic, ...rest] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 } })

async function create(partitions) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1 }] })
  await admin.disconnect()
}

async function produce(codec, prefix, n) {
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  const keys = Array.from({ length: Number(n) }, (_, i) => `${prefix}-${i}`)
  for (let at = 0; at < keys.length; at += 100) {
    const messages = keys.slice(at, at + 100).map(key => ({ key, value: `${key}/`.repeat(8) }))
    await producer.send({ topic, compression, messages })
  }
  await producer.disconnect()
}

async function member(groupId) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200, sessionTimeout: Number(process.env.KAFKAJS_SESSION_MS || 30000) })
  const own = list => console.log('own ' + list.sort().join(','))
  consumer.on(consumer.events.GROUP_JOIN, e => own(e.payload.memberAssignment[topic] || []))
  consumer.on(consumer.events.REBALANCING, () => own([]))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (const m of batch.messages) {
        console.log(`got ${batch.partition} ${m.offset} ${m.key} ${m.value}`)
        resolveOffset(m.offset)
      }
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset: String(BigInt(batch.lastOffset()) + 1n) }])
      await heartbeat()
    }
  })
  await new Promise(end => process.stdin.on('data', end))
  await consumer.disconnect()
}

({ create, produce, member })[mode](...rest).then(() => { console.log('done'); process.exit(0) }, e => { console.error(e); process.exit(1) })
