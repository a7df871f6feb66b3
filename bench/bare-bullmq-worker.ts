/** Baseline of the no-op bench: a BullMQ worker that ends every job at once. argv: Redis URL, concurrency. */
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'

const [url = '', concurrency = '1'] = process.argv.slice(2)
const connection = new Redis({ path: url.replace(/^unix:\/\//, ''), maxRetriesPerRequest: null })
const worker = new Worker('bare', () => Promise.resolve(null), {
  connection,
  concurrency: Number(concurrency),
})
await worker.waitUntilReady()
process.on('SIGTERM', () => {
  void worker.close().then(() => {
    connection.disconnect()
    process.exit(0)
  })
})
process.send?.('ready')
