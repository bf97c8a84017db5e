// Transactional producers of kafkajs; internal/transactor/transactor.go says what it is told.
// Usage: transactor.js MODULES BOOTSTRAP
'use strict'

const readline = require('readline')
const { createRequire } = require('module')

const [modules, bootstrap] = process.argv.slice(2)
const { Kafka, logLevel } = createRequire(modules + '/package.json')('kafkajs')

const STALL_MS = 30000
const END = 'end'

const kafka = new Kafka({ clientId: 'conformance-kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 10 } })
const producers = new Map()
const inputs = new Map()

// A consumer whose records wait in a queue until they are asked for.
class Input {
  constructor (groupId, readUncommitted) {
    this.group = groupId
    this.queue = []
    this.next = new Map() // what to commit, by partition
    this.wake = () => {}
    this.consumer = kafka.consumer({
      groupId, readUncommitted, sessionTimeout: 3000, heartbeatInterval: 500, maxWaitTimeInMs: 200, allowAutoTopicCreation: false,
    })
  }

  async open (topic) {
    this.topic = topic
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [topic], fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        this.queue.push({ partition, message })
        this.wake()
      },
    })
  }

  async poll (max) {
    if (this.queue.length === 0) {
      let timer
      await new Promise((resolve, reject) => {
        this.wake = resolve
        timer = setTimeout(() => reject(new Error('nothing came')), STALL_MS)
      })
      clearTimeout(timer)
    }
    const got = this.queue.splice(0, max)
    for (const { partition, message } of got) this.next.set(partition, String(BigInt(message.offset) + 1n))
    return got.map(({ partition, message }) => ` ${partition}:${message.value}`)
  }

  close () { return this.consumer.disconnect() }
}

let readers = 0

// kafkajs assigns partitions only through a group, so a reader is the only member of one.
async function read (topic, partitions, isolation) {
  const input = new Input(`reader-${topic}-${++readers}`, isolation === 'uncommitted')
  await input.open(topic)
  const records = []
  while (records.filter((r) => r.endsWith(':' + END)).length < Number(partitions)) records.push(...await input.poll(500))
  await input.close()
  return records
}

const commands = {
  // kafkajs initializes a producer with each transaction.
  async producer (name, transactionalId, timeoutMs) {
    const producer = kafka.producer({
      transactionalId, transactionTimeout: Number(timeoutMs), idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false,
    })
    await producer.connect()
    producers.set(name, { producer })
  },
  async begin (name) {
    const p = producers.get(name)
    p.transaction = await p.producer.transaction()
  },
  async send (name, topic, partition, ...values) {
    await producers.get(name).transaction.send({ topic, messages: values.map((value) => ({ partition: Number(partition), value })) })
  },
  async offsets (name, consumer) {
    const input = inputs.get(consumer)
    const partitions = [...input.next].map(([partition, offset]) => ({ partition, offset }))
    await producers.get(name).transaction.sendOffsets({ consumerGroupId: input.group, topics: [{ topic: input.topic, partitions }] })
  },
  async commit (name) { await producers.get(name).transaction.commit() },
  async abort (name) { await producers.get(name).transaction.abort() },
  async consumer (name, group, topic) {
    inputs.set(name, new Input(group, false))
    await inputs.get(name).open(topic)
  },
  async poll (name) { return inputs.get(name).poll(10) },
  async close (name) { await inputs.get(name).close() },
  read,
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split(' ')
    let answer
    try {
      answer = 'ok' + (await commands[command](...words) || []).join('')
    } catch (e) {
      console.error(e)
      answer = `error ${e.type || e.name} ${e}`.replaceAll('\n', ' ')
    }
    process.stdout.write(answer + '\n')
  }
}

main().then(() => process.exit(0))
