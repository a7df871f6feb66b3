/**
 * The API's configuration. Callers pass the environment to read, because tests and `cofferdam up` have their
 * own.
 */
import { azureProvisionConfigSchema, type AzureProvisionConfig } from '@cofferdam/backends'
import {
  COMMON_FIELDS,
  configProblems,
  printConfig as print,
  readAll,
  readConfig,
  readFileOf,
  redisUrl,
  wholeNumber,
  type ConfigOf,
} from '@cofferdam/config'
import { CELL_MAX } from '@cofferdam/contract'
import { cellsConfigSchema, type CellsConfig } from '@cofferdam/queue'
import { z } from 'zod'
import { OAUTH_FIELDS, oauthSettings, type OAuthSettings } from './oauth/oauth-config.ts'

/** The URL of another web server. Paths are appended to it, so it must have no query and no fragment. */
const pageAddress = z
  .string()
  .max(2000)
  .refine((text) => {
    const { protocol, username, password, search, hash } = URL.parse(text) ?? { protocol: '' }
    return /^https?:$/.test(protocol) && !username && !password && !search && !hash
  }, 'expected a URL that begins with http:// or https://, without a user, a query or a fragment')
  .transform((text) => new URL(text).href.replace(/[/?#]+$/, ''))

const CELL = /^(\d{1,4})=(.+)$/

/** `1=redis://a 2=redis://b`. Errors do not repeat the text, because it contains passwords. */
const otherCells = z.string().transform((text, context) => {
  const parts = text.split(/\s+/).filter((part) => part !== '')
  const cells = parts.map((part): [number, string] => {
    const [, number = '', url = ''] = CELL.exec(part) ?? []
    return [number === '' ? -1 : Number(number), url]
  })
  const isGood = cells.every(
    ([number, url]) => number >= 0 && number <= CELL_MAX && redisUrl.safeParse(url).success,
  )
  if (isGood && new Map(cells).size === cells.length) return cells
  context.addIssue(`expected number=URL with numbers from 0 to ${CELL_MAX}, each once, separated by spaces`)
  return z.NEVER
})

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
      'YAML file that workers read, too. The API uses its sections provisioning.azure and cells. Unset: ' +
      'cofferdam.config.yaml, if it exists.',
    example: 'cofferdam.config.yaml',
  },
  cells: {
    variable: 'COFFERDAM_CELLS',
    schema: otherCells.prefault(''),
    description:
      'The other cells that this API serves, as number=URL of their Redis, separated by spaces. The ' +
      'section cells of the configuration file says which tenants live in which cell. Unset: a fleet of ' +
      'one cell.',
    example: '1=redis://redis-1:6379 2=redis://redis-2:6379',
    secret: true,
  },
  publicUrl: {
    variable: 'COFFERDAM_PUBLIC_URL',
    schema: z.url({ protocol: /^https?$/ }).optional(),
    description:
      'Address under which clients and browsers reach the API. In Host and Origin, /mcp accepts only the ' +
      'name of this address and loopback names. Unset: only loopback names, and Host is checked only on ' +
      'loopback connections.',
    example: 'https://cofferdam.example.com',
  },
  dashboardDir: {
    variable: 'COFFERDAM_DASHBOARD_DIR',
    schema: z.string().min(1).optional(),
    description:
      'Folder with a build of the dashboard (index.html and assets). Unset: the build beside the API, ' +
      'which `npm start`, the image and the package have.',
    example: '/opt/cofferdam/dashboard',
  },
  jaegerUrl: {
    variable: 'COFFERDAM_JAEGER_URL',
    schema: pageAddress.optional(),
    description:
      'Address under which browsers reach Jaeger. The dashboard then links each execution to its trace, for ' +
      'operators; unset: no links.',
    example: 'http://127.0.0.1:16686',
  },
  ...OAUTH_FIELDS,
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
  /** Which tenants live in which cell. */
  placement: CellsConfig
  /** Undefined: /mcp accepts API keys only. */
  oauth?: OAuthSettings | undefined
}

/** Checks the sections of the file that the API reads. The workers check the others. */
const fileSchema = z.looseObject({
  cells: cellsConfigSchema.prefault({}),
  provisioning: z.looseObject({ azure: azureProvisionConfigSchema.optional() }).prefault({}),
})

/** An environment in the form of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Returns the configuration of `env`. The only argument is `--print-config`; any other is refused, because a
 * mistyped flag must not start a server. Throws `config_invalid` with every problem.
 */
export function loadConfig(env: Environment, argv: readonly string[] = []): ApiConfig {
  const [{ config }, oauth, { provisioning, cells: placement }] = readAll(
    () => readConfig(API_FIELDS, env),
    () => oauthSettings(readConfig(API_FIELDS, env).config),
    () => readFileOf(env, fileSchema),
    () => refuseOthers(argv),
  )
  if (config.cells.some(([cell]) => cell === config.cell))
    throw configProblems([`COFFERDAM_CELLS names cell ${config.cell}, whose Redis is that of REDIS_URL`])
  return { ...config, azureProvisioning: provisioning.azure, placement, oauth }
}

/** The effective configuration of `env` as text, with the source of each value. Secrets are hidden. */
export function describeConfig(env: Environment = process.env): string {
  return print(API_FIELDS, readConfig(API_FIELDS, env))
}

function refuseOthers(argv: readonly string[]): void {
  const unknown = argv.filter((argument) => argument !== '--print-config')
  if (unknown.length > 0)
    throw configProblems([`unknown argument ${unknown.join(' ')}; known: --print-config`])
}
