import { loadConfig, runWorker } from '@cofferdam/worker'
import { type Command, untilStopped } from '../command.ts'
import { EXIT } from '../exit-status.ts'

export const command: Command = {
  usage: '',
  details:
    'Configured by environment variables and cofferdam.config.yaml; see docs/configuration.md. The first ' +
    'Ctrl-C or SIGTERM\n' +
    'drains.',
  flags: {},
  words: { min: 0, max: 0 },
  examples: [
    'REDIS_URL=redis://127.0.0.1 DATABASE_URL=postgres://cofferdam@127.0.0.1/cofferdam cofferdam worker',
  ],
  async run({ config, stop }) {
    const worker = await runWorker(loadConfig(config.environment))
    await untilStopped(stop)
    await worker.close()
    return EXIT.ok
  },
}
