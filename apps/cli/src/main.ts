/** The `cofferdam` process. The first Ctrl-C finishes in order, the second one ends it at once. */
import { currentEnvironment } from './config.ts'
import { dispatch } from './dispatch.ts'
import { EXIT } from './exit-status.ts'

/** npm and shells forward a copy of the terminal's signal. Copies within this time are one key press. */
const SAME_PRESS_MS = 500

const stop = new AbortController()
let firstAtMs = 0
const onSignal = () => {
  const nowMs = performance.now()
  if (!stop.signal.aborted) {
    firstAtMs = nowMs
    stop.abort()
  } else if (nowMs - firstAtMs > SAME_PRESS_MS) process.exit(EXIT.cancelled)
}
process.on('SIGINT', onSignal)
process.on('SIGTERM', onSignal)
process.on('SIGHUP', onSignal)
// A closed pipe (`cofferdam logs … | head`) ends the command, as it ends any filter.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(EXIT.ok)
})

const status = await dispatch({
  args: process.argv.slice(2),
  environment: currentEnvironment(),
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  stop: stop.signal,
})
// Everything is closed here. No output is lost, because these writes are synchronous on POSIX.
process.exit(status)
