import { loadConfig, runDispatcher } from '@cofferdam/dispatcher'
import { type Command, untilStopped } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: '',
  details:
    'Serves the Managed Agents environments that cofferdam.config.yaml names (docs/operations/dispatcher.md): ' +
    'each tool call\n' +
    'of their sessions is an execution of this fleet. The first Ctrl-C or SIGTERM drains.',
  flags: {},
  words: { min: 0, max: 0 },
  examples: ['REDIS_URL=redis://127.0.0.1 cofferdam dispatcher'],
  async run({ config, stop, terminal }) {
    const settings = loadConfig(config.environment)
    if (settings.environments.length === 0)
      throw new UsageError('No environment to serve: cofferdam.config.yaml has no dispatcher.environments.')
    const dispatcher = await runDispatcher(settings)
    terminal.note(`Polls ${settings.environments.map(({ id }) => id).join(', ')}.`)
    await untilStopped(stop)
    await dispatcher.close()
    return EXIT.ok
  },
}
