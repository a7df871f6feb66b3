import { CofferdamError } from '@cofferdam/contract'
import { migrate } from '@cofferdam/store'
import { adminKeyFile } from '../api-connection.ts'
import type { Command } from '../command.ts'
import { DEMO_TENANT, prepareStore } from '../data-dir.ts'
import { EXIT } from '../exit-status.ts'
import { hasFlag } from '../parse-command-line.ts'

export const command: Command = {
  usage: '',
  details:
    'For deployments: migrates the database of DATABASE_URL to the schema of this version, creates the ' +
    'tenant `demo`, and\n' +
    'writes an admin key into COFFERDAM_DATA_DIR unless a valid one is there. `cofferdam up` does all of ' +
    'this itself. --migrate-only is for a job before an upgrade, which has no data directory.',
  flags: {
    'migrate-only': { type: 'boolean', description: 'migrates the database and does nothing else' },
  },
  words: { min: 0, max: 0 },
  examples: [
    'DATABASE_URL=postgres://cofferdam@db/cofferdam COFFERDAM_DATA_DIR=/var/lib/cofferdam cofferdam setup',
  ],
  async run({ config, terminal }, line) {
    if (config.databaseUrl === undefined)
      throw new CofferdamError(
        'config_invalid',
        'DATABASE_URL is not set. Set it, e.g. to postgres://cofferdam@127.0.0.1/cofferdam.',
      )
    if (hasFlag(line, 'migrate-only')) {
      await migrate(config.databaseUrl)
      terminal.value({ migrated: true })
      terminal.line('The database is up to date.')
      return EXIT.ok
    }
    await prepareStore(config.databaseUrl, config.dataDir)
    const file = adminKeyFile(config.dataDir)
    terminal.value({ tenant: DEMO_TENANT, admin_key_file: file })
    terminal.line(`The database is up to date. The admin key is in ${file}.`)
    return EXIT.ok
  },
}
