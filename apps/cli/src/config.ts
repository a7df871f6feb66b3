/** What the command reads from the environment. */
import path from 'node:path'
import { BLOB_FIELDS, readConfig, type ConfigField } from '@cofferdam/config'
import { z } from 'zod'

/** Where `cofferdam up` listens by default. */
export const DEFAULT_PORT = 7070
export const DEFAULT_URL = `http://127.0.0.1:${DEFAULT_PORT}`

/** The variables of the command itself. docs/configuration.md is generated from this. */
export const CLI_FIELDS = {
  url: {
    variable: 'COFFERDAM_URL',
    schema: z.url({ protocol: /^https?$/ }).optional(),
    description:
      'API that the command talks to. Unset: the API that `cofferdam up` started in the data directory, ' +
      `else ${DEFAULT_URL}.`,
    example: 'https://cofferdam.example.com',
  },
  apiKey: {
    variable: 'COFFERDAM_API_KEY',
    schema: z.string().optional(),
    description: 'API key; without it the admin key file of the data directory is used.',
    example: 'cfd_0123…',
    secret: true,
  },
  dataDir: {
    variable: 'COFFERDAM_DATA_DIR',
    schema: z
      .string()
      .default('.data')
      .transform((dir) => path.resolve(dir)),
    description: 'Directory of a single-node set-up: databases, outputs, admin key.',
    example: '.data',
  },
  ...BLOB_FIELDS,
  redisUrl: {
    variable: 'REDIS_URL',
    schema: z.string().optional(),
    description: 'Redis or Valkey; `cofferdam up` starts a private one when it is unset.',
    example: 'redis://127.0.0.1:6379',
    secret: true,
  },
  databaseUrl: {
    variable: 'DATABASE_URL',
    schema: z.string().optional(),
    description: 'Postgres; `cofferdam up` starts a private one when it is unset.',
    example: 'postgres://cofferdam@127.0.0.1/cofferdam',
    secret: true,
  },
} satisfies Record<string, ConfigField>

export type Environment = Readonly<Record<string, string | undefined>>

/** The environment of this process. All other files get it as an argument. */
export const currentEnvironment = (): Environment => process.env

export type CliConfig = ReturnType<typeof readConfig<typeof CLI_FIELDS>>['config'] & {
  /** The whole environment. Each app that `up`, `worker` and `api` start checks it with its own schema. */
  environment: Environment
}

/** Reads the command's configuration. Throws `config_invalid` with every problem. */
export function loadConfig(env: Environment): CliConfig {
  return { ...readConfig(CLI_FIELDS, env).config, environment: env }
}
