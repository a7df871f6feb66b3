/**
 * The API's configuration: one schema, every problem at once. Only this file knows the names of the variables, and
 * it reads the environment it is given, so that tests and `cofferdam up` can pass their own.
 */
import { resolve } from 'node:path'
import { printConfig as print, readConfig, type ConfigOf, type LoadedConfig } from '@cofferdam/config'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

const MISSING = 'it is not set'

/** Checked by scheme only: `postgres://user@/db?host=/socket` and `unix:///path` are no URLs to every parser. */
const urlOf = (schemes: readonly string[]) =>
  z
    .string({ error: MISSING })
    .refine(
      (text) => schemes.some((scheme) => text.startsWith(`${scheme}://`)),
      `expected a URL that begins with ${schemes.map((s) => `${s}://`).join(' or ')}`,
    )

const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, 'expected a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `expected at least ${min}`).max(max, `expected at most ${max}`))

export const API_FIELDS = {
  redisUrl: {
    variable: 'REDIS_URL',
    schema: urlOf(['redis', 'rediss', 'unix']),
    description: 'Redis of the queue and the caps.',
    example: 'redis://127.0.0.1:6379',
    secret: true,
  },
  databaseUrl: {
    variable: 'DATABASE_URL',
    schema: urlOf(['postgres', 'postgresql']),
    description: 'Postgres of the audit rows, results, tenants and keys.',
    example: 'postgres://cofferdam@127.0.0.1:5432/cofferdam',
    secret: true,
  },
  otlpEndpoint: {
    variable: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    schema: urlOf(['http', 'https']).optional(),
    description: 'Where spans and metrics go; unset: nowhere.',
    example: 'http://127.0.0.1:4318',
    secret: true,
  },
  dataDir: {
    variable: 'COFFERDAM_DATA_DIR',
    schema: z
      .string()
      .default('.data')
      .transform((dir) => resolve(dir)),
    description: 'Directory of full outputs and artifacts; the same as the workers’.',
    example: '/var/lib/cofferdam',
  },
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
    schema: integer(0, 65_535).default(7070),
    description: 'Port to listen on; 0 takes a free one.',
    example: '7070',
  },
  logLevel: {
    variable: 'COFFERDAM_LOG_LEVEL',
    schema: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        error: 'expected one of trace, debug, info, warn, error, fatal, silent',
      })
      .default('info'),
    description: 'Least important level that is logged.',
    example: 'info',
  },
  drainMs: {
    variable: 'COFFERDAM_DRAIN_MS',
    schema: integer(0, 3_600_000).default(30_000),
    description: 'How long requests may go on after SIGTERM, milliseconds.',
    example: '30000',
  },
} as const

/** What `runApi` needs. */
export type ApiConfig = ConfigOf<typeof API_FIELDS>

/** An environment as `process.env` has it. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * The configuration of `env`. Arguments are checked as well, since a mistyped flag must not start a server: only
 * `--print-config` is known. Throws `config_invalid` with every problem.
 */
export function loadConfig(env: Environment, argv: readonly string[] = []): ApiConfig {
  return load(env, argv).config
}

/** The effective configuration of `env` (default: this process's) as text, secrets hidden, with the source of each value. */
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
