/** The worker process. It drains on the first SIGTERM or SIGINT, and exits at once on the second. */
import './young-generation.ts'
import { describeConfig, loadConfig } from './config.ts'
import { runWorker } from './run-worker.ts'

if (process.argv.includes('--print-config')) {
  console.log(describeConfig())
  process.exit(0)
}

const worker = await runWorker(loadConfig())

let stopping = false
const stop = () => {
  if (stopping) process.exit(130)
  stopping = true
  worker.close().then(
    () => process.exit(0),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
// Tells a parent that forked this process (tests, benches) that it has started. It claims executions once
// Postgres answers.
process.send?.('ready')
