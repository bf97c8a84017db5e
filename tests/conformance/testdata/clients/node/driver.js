// Conformance driver for kafkajs; the workload is defined in internal/workload/workload.go.
'use strict'

const crypto = require('crypto')
const readline = require('readline')
const { createRequire } = require('module')

// The packages lie in the cache folder, not beside this file.
const need = createRequire(process.argv[3] + '/package.json')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = need('kafkajs')
const Cluster = need('kafkajs/src/cluster')
const socketFactory = need('kafkajs/src/network/socketFactory')
const { createLogger } = need('kafkajs/src/loggers')
const logCreator = need('kafkajs/src/loggers/console')
const snappy = need('snappyjs')
const lz4 = need('lz4-napi')
const zstd = need('@bokuweb/zstd-wasm')

const POOL_SIZE = 1200000
const BIG_VALUE_SIZE = 1000000
const STALL_MS = 20000
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const WORDS = [
  'the ', 'quick ', 'brown ', 'fox ', 'jumps ', 'over ', 'lazy ', 'dog ',
  'stream', 'record', 'offset', 'leader', 'replica', 'broker', 'topic', 'segment',
  '\x00', '\xff\xfe', '\n', '\r\n', '\t', '"', '\\', '\xc3\xa9',
  '\xe6\x97\xa5\xe6\x9c\xac', '\x00\x00\x00\x00', '0123456789', '{"a":1}', ',', '=',
  '\x7f\x80', '\xf0\x9f\x98\x80',
].map((w) => Buffer.from(w, 'latin1'))

// snappy as the Java client frames it (xerial): a 16-byte header, then blocks of a big-endian length and their bytes.
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
const XERIAL_BLOCK = 32768

function xerialCompress (data) {
  const header = Buffer.alloc(16)
  XERIAL.copy(header)
  header.writeInt32BE(1, 8)
  header.writeInt32BE(1, 12)
  const parts = [header]
  for (let at = 0; at < data.length; at += XERIAL_BLOCK) {
    const block = Buffer.from(snappy.compress(data.subarray(at, at + XERIAL_BLOCK)))
    const size = Buffer.alloc(4)
    size.writeInt32BE(block.length)
    parts.push(size, block)
  }
  return Buffer.concat(parts)
}

function xerialDecompress (data) {
  if (!data.subarray(0, 8).equals(XERIAL)) return Buffer.from(snappy.uncompress(data))
  const parts = []
  for (let at = 16; at < data.length;) {
    const size = data.readInt32BE(at)
    parts.push(Buffer.from(snappy.uncompress(data.subarray(at + 4, at + 4 + size))))
    at += 4 + size
  }
  return Buffer.concat(parts)
}

function registerCodecs () {
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: async (encoder) => xerialCompress(encoder.buffer),
    decompress: async (buffer) => xerialDecompress(buffer),
  })
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: async (buffer) => lz4.decompressFrame(buffer),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer, 3)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer, { defaultHeapSize: 16 << 20 })),
  })
}

class Random {
  constructor (seed) { this.state = seed >>> 0 }

  next () {
    let s = this.state
    s = (s ^ (s << 13)) >>> 0
    s = (s ^ (s >>> 17)) >>> 0
    s = (s ^ (s << 5)) >>> 0
    this.state = s
    return s
  }
}

function makePool () {
  const parts = []
  const random = new Random(2463534242)
  for (let size = 0; size < POOL_SIZE;) {
    const word = WORDS[random.next() & 31]
    parts.push(word)
    size += word.length
  }
  return Buffer.concat(parts).subarray(0, POOL_SIZE)
}

const pool = makePool()
const cut = (from, size) => pool.subarray(from, from + size)

function makeHeaders (r4, r5, r6) {
  const headers = {}
  const count = r4 % 4
  for (let j = 0; j < count; j++) {
    const m = (r5 >>> (3 * j)) & 7
    let v = Buffer.alloc(0) // kafkajs cannot encode a null header value
    if (m > 1) v = cut(((r6 + 37 * j) >>> 0) % 1000000, 1 + (r5 >>> (8 + j)) % 40)
    if (count === 3 && j === 2) headers.h1 = [headers.h1, v]
    else headers['h' + j] = v
  }
  return headers
}

function makeRecord (i, partitions) {
  const random = new Random(Math.imul(i + 1, 2654435761 | 0))
  const [r1, r2, r3, r4, r5, r6] = Array.from({ length: 6 }, () => random.next())
  let key = Buffer.from('key-' + (r1 % 1000))
  if (i % 10 === 3) key = null
  else if (i % 10 === 7) key = Buffer.alloc(0)
  let value
  if (i % 20 === 5 || i % 30 === 13) value = null
  else if (i % 20 === 11) value = Buffer.alloc(0)
  else if (i % 12500 === 2500) value = cut(r2 % 200000, BIG_VALUE_SIZE)
  else value = cut(r2 % 1000000, 1 + r3 % 600)
  return { partition: i % partitions, timestamp: String(1700000000000 + i), key, value, headers: makeHeaders(r4, r5, r6) }
}

class PartitionDigest {
  constructor () {
    this.sha = crypto.createHash('sha256')
    this.due = 0
  }

  add (partition, m) {
    if (Number(m.offset) !== this.due) throw new Error(`partition ${partition}: offset ${m.offset} came where ${this.due} was due`)
    this.due++
    const head = Buffer.alloc(16)
    head.writeBigInt64BE(BigInt(m.offset))
    head.writeBigInt64BE(BigInt(m.timestamp), 8)
    this.sha.update(head)
    this.bytes(m.key)
    this.bytes(m.value)
    const headers = []
    for (const [k, v] of Object.entries(m.headers || {})) {
      for (const one of Array.isArray(v) ? v : [v]) headers.push([k, one])
    }
    this.int(headers.length)
    for (const [k, v] of headers) {
      this.bytes(Buffer.from(k))
      this.bytes(v)
    }
  }

  int (n) {
    const b = Buffer.alloc(4)
    b.writeInt32BE(n)
    this.sha.update(b)
  }

  bytes (b) {
    this.int(b == null ? -1 : b.length)
    if (b != null) this.sha.update(b)
  }

  result () { return `${this.due}:${this.sha.digest('hex')}` }
}

const kafka = new Kafka({ clientId: 'conformance-kafkajs', brokers: [process.argv[2]], logLevel: logLevel.ERROR })

async function create (topic, partitions) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    const made = await admin.createTopics({
      waitForLeaders: false, // kafkajs gives up on the first UNKNOWN_TOPIC_OR_PARTITION while a new topic spreads
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '-1' }] }],
    })
    if (!made) throw new Error('topic exists already')
  } finally {
    await admin.disconnect()
  }
  return ''
}

// kafkajs writes one batch per partition and send, so a send stays below max.message.bytes.
async function produce (topic, partitions, records, codec, acks) {
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  try {
    let messages = []
    let size = 0
    const flush = async () => {
      if (messages.length > 0) await producer.send({ topic, messages, acks: acks === 'all' ? -1 : Number(acks), compression: CODECS[codec] })
      messages = []
      size = 0
    }
    for (let i = 0; i < records; i++) {
      const m = makeRecord(i, partitions)
      const bytes = m.value ? m.value.length : 0
      if (size + bytes > 800000) await flush()
      messages.push(m)
      size += bytes
    }
    await flush()
  } finally {
    await producer.disconnect()
  }
  return ''
}

// kafkajs assigns partitions only through a group, so its own cluster and broker classes fetch them here.
async function consume (topic, partitions, records) {
  const cluster = new Cluster({
    logger: createLogger({ level: logLevel.ERROR, logCreator }),
    socketFactory: socketFactory(),
    brokers: [process.argv[2]],
    clientId: 'conformance-kafkajs',
    connectionTimeout: 5000,
    metadataMaxAge: 300000,
    maxInFlightRequests: null,
    allowAutoTopicCreation: false,
    isolationLevel: 1,
  })
  const digests = Array.from({ length: partitions }, () => new PartitionDigest())
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const leaders = await cluster.findLeaderForPartitions(topic, digests.map((_, p) => p))
    let read = 0
    let last = Date.now()
    while (read < records) {
      for (const [nodeId, led] of Object.entries(leaders)) {
        const got = await fetchOnce(await cluster.findBroker({ nodeId }), topic, led, digests)
        read += got
        if (got > 0) last = Date.now()
      }
      if (Date.now() - last > STALL_MS) throw new Error(`stalled after ${read} of ${records} records`)
    }
  } finally {
    await cluster.disconnect()
  }
  return digests.map((d) => ' ' + d.result()).join('')
}

async function fetchOnce (broker, topic, led, digests) {
  const { responses } = await broker.fetch({
    isolationLevel: 1,
    maxWaitTime: 500,
    maxBytes: 8 << 20,
    topics: [{ topic, partitions: led.map((partition) => ({ partition, fetchOffset: digests[partition].due, maxBytes: 4 << 20 })) }],
  })
  let got = 0
  for (const { partition, messages } of responses.flatMap((r) => r.partitions)) {
    for (const m of messages) {
      if (Number(m.offset) < digests[partition].due) continue // a batch may begin below the offset asked for
      digests[partition].add(partition, m)
      got++
    }
  }
  return got
}

async function run (words) {
  const [command, topic, partitions, records, codec, acks] = words
  if (command === 'create') return create(topic, Number(partitions))
  if (command === 'produce') return produce(topic, Number(partitions), Number(records), codec, acks)
  if (command === 'consume') return consume(topic, Number(partitions), Number(records))
  throw new Error('unknown command ' + command)
}

async function main () {
  await zstd.init()
  registerCodecs()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer
    try {
      answer = 'ok' + await run(line.split(' '))
    } catch (e) {
      console.error(e)
      answer = 'error ' + String(e).replaceAll('\n', ' ')
    }
    process.stdout.write(answer + '\n')
  }
}

main()
