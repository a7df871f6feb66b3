/** Fields that every app reads, and common schemas of fields. */
import path from 'node:path'
import { CELL_MAX } from '@cofferdam/contract'
import { z } from 'zod'
import { BLOB_FIELDS } from './blob-fields.ts'
import type { ConfigField } from './read-config.ts'

/**
 * Checks only the scheme, because some URL parsers reject valid forms such as
 * `postgres://user@/db?host=/socket` or `unix:///path`.
 */
export const urlOf = (schemes: readonly string[]) =>
  z
    .string({ error: 'it is not set' })
    .refine(
      (text) => schemes.some((scheme) => text.startsWith(`${scheme}://`)),
      `expected a URL that begins with ${schemes.map((s) => `${s}://`).join(' or ')}`,
    )

/** Where a Redis is, in any form that @cofferdam/queue connects to. */
export const redisUrl = urlOf([
  'redis',
  'rediss',
  'unix',
  'redis+sentinel',
  'rediss+sentinel',
  'redis+cluster',
  'rediss+cluster',
])

/** Digits only. `1e3` and ` 4 ` are refused as mistakes. */
export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, 'expected a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `expected at least ${min}`).max(max, `expected at most ${max}`))

/** `id:base64,id:base64`, with keys of 32 bytes. Errors do not repeat the text, because it contains keys. */
const outputKeys = z
  .string()
  .transform((text, context) => {
    const keys = text.split(',').map((part) => {
      const [, id = '', encoded = ''] = /^\s*([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)\s*$/.exec(part) ?? []
      return { id, key: Buffer.from(encoded, 'base64') }
    })
    const isGood = keys.every(({ id, key }) => id !== '' && key.length === 32)
    if (isGood && new Set(keys.map(({ id }) => id)).size === keys.length) return keys
    context.addIssue('expected id:key,… with ids of their own and 32 bytes of base64 each')
    return z.NEVER
  })
  .optional()

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const COMMON_FIELDS = {
  redisUrl: {
    variable: 'REDIS_URL',
    schema: redisUrl,
    description:
      'Redis or Valkey of the queue and the caps: one server, sentinels ' +
      '(`redis+sentinel://s1,s2,s3/master-name/db`), or some nodes of a cluster ' +
      '(`redis+cluster://n1:7000,n2:7001`).',
    example: 'redis://127.0.0.1:6379',
    secret: true,
  },
  admissionRedisUrl: {
    variable: 'COFFERDAM_ADMISSION_REDIS_URL',
    schema: redisUrl.optional(),
    description:
      'Redis of the caps, leases and rates, if they have one of their own; API and workers share it, and ' +
      'several cells may. Unset: REDIS_URL.',
    example: 'redis://127.0.0.1:6380',
    secret: true,
  },
  cell: {
    variable: 'COFFERDAM_CELL',
    schema: wholeNumber(0, CELL_MAX).default(0),
    description: 'Number of the cell whose Redis REDIS_URL names; only a fleet of several cells sets it.',
    example: '1',
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
    description: 'OTLP/HTTP receiver of spans and metrics, e.g. Jaeger; unset: nothing is sent.',
    example: 'http://127.0.0.1:4318',
    secret: true,
  },
  traceSampleRatio: {
    variable: 'COFFERDAM_TRACE_SAMPLE_RATIO',
    schema: z
      .string()
      .regex(/^(0(\.\d{1,6})?|1(\.0{1,6})?)$/, 'expected a number from 0 to 1')
      .transform(Number)
      .optional(),
    description:
      'Share of traces without failure that is sent to the collector, 0 to 1 (unset: all); failed, ' +
      'refused and slow ones always are.',
    example: '0.05',
  },
  traceSlowMs: {
    variable: 'COFFERDAM_TRACE_SLOW_MS',
    schema: wholeNumber(1, 86_400_000).default(10_000),
    description:
      'An execution or request that takes or waits at least this many milliseconds is slow, so its trace ' +
      'is always sent.',
    example: '10000',
  },
  metricsPort: {
    variable: 'COFFERDAM_METRICS_PORT',
    schema: wholeNumber(0, 65_535).optional(),
    description:
      'Port of /metrics, /healthz and /readyz without keys, for probes and Prometheus; unset: not served; ' +
      '0 takes a free one.',
    example: '9464',
  },
  metricsHost: {
    variable: 'COFFERDAM_METRICS_HOST',
    schema: z
      .string()
      .regex(/^[A-Za-z0-9.:_-]{1,253}$/, 'expected a host name or an address without brackets')
      .default('127.0.0.1'),
    description:
      'Address that the metrics port listens on. The port needs no key. Use another address than loopback ' +
      'only on a network that nothing but probes and Prometheus can reach.',
    example: '127.0.0.1',
  },
  dataDir: {
    variable: 'COFFERDAM_DATA_DIR',
    schema: z
      .string()
      .default('.data')
      .transform((dir) => path.resolve(dir)),
    description:
      'Directory of full outputs and artifacts, unless COFFERDAM_BLOBS is set; API and workers share it.',
    example: '/var/lib/cofferdam',
  },
  ...BLOB_FIELDS,
  outputKeys: {
    variable: 'COFFERDAM_OUTPUT_KEYS',
    schema: outputKeys,
    description:
      'Keys for outputs, artifacts and kept programs that have to be stored encrypted, as id:base64 of 32 ' +
      'bytes, separated by commas. The first encrypts, all decrypt. API and workers share them. Unset: ' +
      'executions whose policy demands encryption are refused.',
    example: 'k1:<openssl rand -base64 32>',
    secret: true,
  },
  logLevel: {
    variable: 'COFFERDAM_LOG_LEVEL',
    schema: z.enum(LEVELS, { error: `expected one of ${LEVELS.join(', ')}` }).default('info'),
    description: 'Least important level that is logged.',
    example: 'info',
  },
} as const satisfies Record<string, ConfigField>
