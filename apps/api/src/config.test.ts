import { describe, expect, it } from 'vitest'
import { describeConfig, loadConfig } from './config.ts'

const GOOD = { REDIS_URL: 'unix:///run/redis.sock', DATABASE_URL: 'postgres://app:hush@db/cofferdam' }

describe('the configuration of the API', () => {
  it('needs only the addresses of Redis and Postgres', () => {
    expect(loadConfig(GOOD)).toEqual({
      redisUrl: 'unix:///run/redis.sock',
      databaseUrl: 'postgres://app:hush@db/cofferdam',
      otlpEndpoint: undefined,
      dataDir: expect.stringMatching(/\.data$/),
      host: '127.0.0.1',
      cell: 0,
      cells: [],
      placement: { tenants: {}, others: 0 },
      metricsHost: '127.0.0.1',
      traceSlowMs: 10_000,
      port: 7070,
      logLevel: 'info',
      drainMs: 30_000,
      oauthAlgorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      oauthTenantClaim: 'tenant_id',
    })
  })

  it('reports every problem at once, each with the variable and an example', () => {
    const load = () =>
      loadConfig({
        DATABASE_URL: 'mysql://db',
        COFFERDAM_PORT: '70700',
        COFFERDAM_LOG_LEVEL: 'loud',
        COFFERDAM_HSOT: '0.0.0.0',
      })
    expect(load).toThrow(/5 problem/)
    expect(load).toThrow(/COFFERDAM_HSOT: no such variable; did you mean COFFERDAM_HOST\?/)
    expect(load).toThrow(/REDIS_URL: it is not set \(example: redis:\/\/127\.0\.0\.1:6379\)/)
    expect(load).toThrow(/DATABASE_URL: expected a URL that begins with postgres:\/\/ or postgresql:\/\//)
    expect(load).toThrow(/COFFERDAM_PORT: expected at most 65535 \(example: 7070\)/)
    expect(load).toThrow(/COFFERDAM_LOG_LEVEL: expected one of trace/)
  })

  it('reads the other cells of the fleet', () => {
    const COFFERDAM_CELLS = '1=redis://a:6379  2=redis+cluster://:pw@n1:7000,n2:7001'
    expect(loadConfig({ ...GOOD, COFFERDAM_CELL: '7', COFFERDAM_CELLS })).toMatchObject({
      cell: 7,
      cells: [
        [1, 'redis://a:6379'],
        [2, 'redis+cluster://:pw@n1:7000,n2:7001'],
      ],
    })
  })

  it.each([
    'redis://a',
    '1=http://a',
    '4096=redis://a',
    '1=redis://a 1=redis://b',
    '1=redis://:hush@a,2=b c',
  ])('refuses the cells %s without repeating them', (COFFERDAM_CELLS) => {
    const load = () => loadConfig({ ...GOOD, COFFERDAM_CELLS })
    expect(load).toThrow(/COFFERDAM_CELLS: expected number=URL/)
    expect(load).not.toThrow(/hush/)
  })

  it('refuses a cell that is named twice, by COFFERDAM_CELL too', () => {
    expect(() => loadConfig({ ...GOOD, COFFERDAM_CELL: '1', COFFERDAM_CELLS: '1=redis://a' })).toThrow(
      /COFFERDAM_CELLS names cell 1/,
    )
  })

  it('accepts the variables of the other apps', () => {
    expect(loadConfig({ ...GOOD, COFFERDAM_SLOTS: '4', COFFERDAM_BACKENDS: 'docker' }).port).toBe(7070)
  })

  it('accepts Postgres URLs that name a socket directory', () => {
    const url = 'postgres://user@/db?host=/run/postgres'
    expect(loadConfig({ ...GOOD, DATABASE_URL: url }).databaseUrl).toBe(url)
  })

  it.each([
    ['http://127.0.0.1:16686', 'http://127.0.0.1:16686'],
    ['https://traces.example.com/jaeger//', 'https://traces.example.com/jaeger'],
    ['https://traces.example.com/?', 'https://traces.example.com'],
  ])('takes %s for the address of Jaeger', (text, url) => {
    expect(loadConfig({ ...GOOD, COFFERDAM_JAEGER_URL: text }).jaegerUrl).toBe(url)
  })

  it.each([
    'javascript:alert(1)',
    'jaeger:16686',
    '127.0.0.1:16686',
    '//jaeger.example.com',
    'http://user:hush@jaeger.example.com',
    'http://jaeger.example.com/?a=1',
    'http://jaeger.example.com/#/x',
  ])('refuses %j for the address of Jaeger', (text) => {
    expect(() => loadConfig({ ...GOOD, COFFERDAM_JAEGER_URL: text })).toThrow(/COFFERDAM_JAEGER_URL/)
  })

  it('refuses unknown arguments', () => {
    expect(() => loadConfig(GOOD, ['--prot', '8080'])).toThrow(/unknown argument --prot 8080/)
  })

  it('shows values with their sources and without passwords', () => {
    const text = describeConfig({ ...GOOD, COFFERDAM_PORT: '8080' })
    expect(text).toMatch(/COFFERDAM_PORT=8080 +# environment/)
    expect(text).toMatch(/COFFERDAM_HOST="127.0.0.1" +# default/)
    expect(text).not.toContain('hush')
  })
})
