/** Run by tests as a separate process: starts one server, prints its address, and waits to be killed. */
import { startPostgres, startRedis } from '../src/index.ts'

const [kind, dataDir = '', durable] = process.argv.slice(2)
try {
  const options = { dataDir, durable: durable === 'durable' }
  const server = kind === 'redis' ? await startRedis(options) : await startPostgres(options)
  console.log(JSON.stringify({ url: server.url, pid: server.pid, how: server.how }))
  // An unresolved promise alone does not keep a process alive.
  setInterval(() => {}, 60_000)
  process.once('SIGTERM', () => void server.stop().then(() => process.exit(0)))
} catch (error) {
  console.log(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }))
}
