// A member of a group that runs kafkajs; internal/member/member.go says how it speaks.
// Usage: member.js MODULES BOOTSTRAP GROUP TOPIC MEMBER PROTOCOL STRATEGY INSTANCE SESSION_MS
'use strict'

const fs = require('fs')
const readline = require('readline')
const { createRequire } = require('module')

const [modules, bootstrap, groupId, topic, name, , , , sessionMs] = process.argv.slice(2)
const { Kafka, logLevel } = createRequire(modules + '/package.json')('kafkajs')

const say = (...words) => fs.writeSync(1, [name, ...words].join(' ') + '\n')

async function main () {
  const kafka = new Kafka({ clientId: 'conformance-kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({
    groupId, sessionTimeout: Number(sessionMs), heartbeatInterval: 500, maxWaitTimeInMs: 200, allowAutoTopicCreation: false,
  })
  let owned = []
  const next = new Map() // what to commit, by partition
  const give = () => {
    if (owned.length > 0) say('revoked', ...owned)
    owned = []
    next.clear()
  }
  consumer.on('consumer.rebalancing', give)
  consumer.on('consumer.group_join', (e) => {
    give() // a member that has to join anew says so only now
    owned = e.payload.memberAssignment[topic] || []
    say('assigned', ...owned)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      next.set(partition, String(BigInt(message.offset) + 1n))
      say('record', partition, message.offset)
    },
  })
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, partition, offset] = line.split(' ')
    if (command === 'leave') break
    if (command === 'commit') {
      await consumer.commitOffsets([...next].map(([p, o]) => ({ topic, partition: p, offset: o })))
      say('committed')
    } else if (command === 'seek') {
      consumer.seek({ topic, partition: Number(partition), offset })
      say('sought')
    }
  }
  await consumer.disconnect()
  say('left')
}

main().then(() => process.exit(0), (e) => {
  console.error(e)
  say('error', String(e).replaceAll('\n', ' '))
  process.exit(1)
})
