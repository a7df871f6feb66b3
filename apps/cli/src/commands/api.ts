import { loadConfig, runApi } from '@cofferdam/api'
import { type Command, untilStopped } from '../command.ts'
import { EXIT } from '../exit-status.ts'

export const command: Command = {
  usage: '',
  details:
    'Configured by environment variables; see docs/configuration.md. The first Ctrl-C or SIGTERM drains.',
  flags: {},
  words: { min: 0, max: 0 },
  examples: [
    'REDIS_URL=redis://127.0.0.1 DATABASE_URL=postgres://cofferdam@127.0.0.1/cofferdam cofferdam api',
  ],
  async run({ config, stop, terminal }) {
    const api = await runApi(loadConfig(config.environment))
    terminal.note(`The API answers at ${api.url}.`)
    await untilStopped(stop)
    await api.close()
    return EXIT.ok
  },
}
