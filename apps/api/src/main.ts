/** The API as a process: configuration, signals, drain. `--print-config` prints the configuration. */
import { isCofferdamError } from '@cofferdam/contract'
import { describeConfig, loadConfig } from './config.ts'
import { runApi } from './run-api.ts'

try {
  const config = loadConfig(process.env, process.argv.slice(2))
  if (process.argv.includes('--print-config')) console.log(describeConfig())
  else await serve(config)
} catch (error) {
  console.error(isCofferdamError(error) ? error.message : error)
  process.exitCode = 1
}

async function serve(config: ReturnType<typeof loadConfig>): Promise<void> {
  const api = await runApi(config)
  console.log(`cofferdam api listens on ${api.url}`)
  const stop = (signal: NodeJS.Signals): void => {
    // Removes our handlers, so that a second signal ends the process at once.
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.off(name, stop)
    console.log(`${signal}: draining`)
    api.close().catch((error: unknown) => {
      console.error(error)
      process.exitCode = 1
    })
  }
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, stop)
}
