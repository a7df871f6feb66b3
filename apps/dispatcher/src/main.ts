/** The dispatcher process. It drains on the first SIGTERM or SIGINT, and exits at once on the second. */
import { describeConfig, loadConfig } from './config.ts'
import { runDispatcher } from './run-dispatcher.ts'

if (process.argv.includes('--print-config')) {
  console.log(describeConfig())
  process.exit(0)
}

const dispatcher = await runDispatcher(loadConfig())

let stopping = false
const stop = () => {
  if (stopping) process.exit(130)
  stopping = true
  dispatcher.close().then(
    () => process.exit(0),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
// Tells a parent that forked this process (tests) that it polls now.
process.send?.('ready')
