/** The API's configuration. It reads a given environment: tests and `cofferdam up` pass their own. */
import { azureProvisionConfigSchema, type AzureProvisionConfig } from '@cofferdam/backends'
import {
  COMMON_FIELDS,
  printConfig as print,
  readConfig,
  readConfigFile,
  wholeNumber,
  type ConfigOf,
  type LoadedConfig,
} from '@cofferdam/config'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

export const API_FIELDS = {
  ...COMMON_FIELDS,
  host: {
    variable: 'COFFERDAM_HOST',
    schema: z
      .string()
      .regex(/^[A-Za-z0-9.:_-]{1,253}$/, 'expected a host name or an address without brackets')
      .default('127.0.0.1'),
    description: 'Address to listen on.',
    example: '127.0.0.1',
  },
  port: {
    variable: 'COFFERDAM_PORT',
    schema: wholeNumber(0, 65_535).default(7070),
    description: 'Port to listen on; 0 takes a free one.',
    example: '7070',
  },
  configFile: {
    variable: 'COFFERDAM_CONFIG',
    schema: z.string().optional(),
    description:
      'YAML file that workers read too; the API takes its section provisioning.azure. ' +
      'cofferdam.config.yaml is read when it exists.',
    example: 'cofferdam.config.yaml',
  },
  drainMs: {
    variable: 'COFFERDAM_DRAIN_MS',
    schema: wholeNumber(0, 3_600_000).default(30_000),
    description: 'How long requests may go on after SIGTERM, milliseconds.',
    example: '30000',
  },
} as const

/** What `runApi` needs. */
export type ApiConfig = ConfigOf<typeof API_FIELDS> & {
  /** The subscription in which session pools are created. Undefined: none are created. */
  azureProvisioning?: AzureProvisionConfig | undefined
}

/** Checks one section of the file. The workers check the others. */
const fileSchema = z.looseObject({
  provisioning: z.looseObject({ azure: azureProvisionConfigSchema.optional() }).prefault({}),
})

/** An environment in the form of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Returns the configuration of `env`. The only argument is `--print-config`; any other is refused, because a
 * mistyped flag must not start a server. Throws `config_invalid` with every problem.
 */
export function loadConfig(env: Environment, argv: readonly string[] = []): ApiConfig {
  const { config } = load(env, argv)
  const { provisioning } = readConfigFile(config.configFile ?? 'cofferdam.config.yaml', fileSchema, {
    mustExist: config.configFile !== undefined,
  })
  return { ...config, azureProvisioning: provisioning.azure }
}

/** The effective configuration of `env` as text, with hidden secrets and the source of each value. */
export function describeConfig(env: Environment = process.env): string {
  return print(API_FIELDS, load(env, []))
}

function load(env: Environment, argv: readonly string[]): LoadedConfig<typeof API_FIELDS> {
  const unknown = argv.filter((argument) => argument !== '--print-config')
  if (unknown.length > 0) {
    throw new CofferdamError('config_invalid', `unknown argument ${unknown.join(' ')}; known: --print-config`)
  }
  return readConfig(API_FIELDS, env)
}
