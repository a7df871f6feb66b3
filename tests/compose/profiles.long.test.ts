/**
 * The real Docker Compose accepts docker-compose.yml with each of its profiles, and starts what the file
 * says.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parse } from 'yaml'
import { findCompose } from '../../scripts/compose.ts'

const run = promisify(execFile)
const FILE = join(import.meta.dirname, '../../docker-compose.yml')
const PROFILES = ['docker', 'doubles', 'observability']

interface Service {
  environment?: Record<string, string>
  healthcheck?: { test: string[] }
  security_opt?: string[]
  cpus: number
  mem_limit: string
  pids_limit: number
}

let compose: readonly string[] = []

/** The file as Compose reads it, with defaults and variables filled in. Rejects with Compose's message. */
async function config(profiles: readonly string[], file = FILE, env: Record<string, string> = {}) {
  const [program = '', ...words] = compose
  const named = profiles.flatMap((profile) => ['--profile', profile])
  const args = [...words, '--file', file, ...named, 'config', '--format', 'json']
  const { PATH = '' } = process.env
  const { stdout } = await run(program, args, { env: { PATH, HOME: tmpdir(), ...env } })
  return (JSON.parse(stdout) as { services: Record<string, Service> }).services
}

needs('compose').describe('docker-compose.yml in Docker Compose', () => {
  let folder: string
  let written: Record<string, { profiles?: string[] }>
  beforeAll(async () => {
    compose = (await findCompose()) ?? []
    folder = await mkdtemp(join(tmpdir(), 'cofferdam-compose-'))
    written = parse(await readFile(FILE, 'utf8'), { merge: true }).services
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it.each([[[]], ...PROFILES.map((one) => [[one]]), [PROFILES]])(
    'is valid with the profiles %j',
    async (chosen) => {
      const services = await config(chosen)
      const expected = Object.entries(written)
        .filter(
          ([, { profiles = [] }]) => profiles.length === 0 || profiles.some((one) => chosen.includes(one)),
        )
        .map(([name]) => name)
      expect(Object.keys(services).toSorted()).toEqual(expected.toSorted())
      for (const [name, { cpus, mem_limit: memory, pids_limit: pids }] of Object.entries(services))
        for (const limit of [cpus, memory, pids]) expect(Number(limit), name).toBeGreaterThan(0)
    },
  )

  it('has all profiles of the file', () => {
    const all = Object.values(written).flatMap(({ profiles = [] }) => profiles)
    expect([...new Set(all)].toSorted()).toEqual(PROFILES)
  })

  it('keeps commands of health checks, and what bubblewrap needs in the doubles', async () => {
    const services = await config(PROFILES)
    for (const [name, port] of [
      ['api', 7070],
      ['worker', 9464],
      ['worker-doubles', 9464],
    ] as const)
      expect(services[name]?.healthcheck?.test.join(' '), name).toContain(
        `fetch('http://127.0.0.1:${port}/readyz')`,
      )
    for (const name of Object.keys(services).filter((one) => one.startsWith('double-')))
      expect(services[name]?.security_opt, name).toContain('apparmor=unconfined')
  })

  it('puts in variables of the environment', async () => {
    const urlWith = async (env: Record<string, string>) =>
      (await config([], FILE, env))['api']?.environment?.['DATABASE_URL']
    expect(await urlWith({})).toBe('postgres://cofferdam:cofferdam@postgres:5432/cofferdam')
    expect(await urlWith({ POSTGRES_PASSWORD: 'other' })).toContain(':other@')
  })

  it('refuses what the published schema allows: limits of one kind in both places', async () => {
    const text = await readFile(FILE, 'utf8')
    const twice = '  postgres:\n    deploy: { resources: { limits: { memory: 1g } } }'
    const changed = text.replace(/^ {2}postgres:$/m, twice)
    expect(changed).not.toBe(text)
    await writeFile(join(folder, 'docker-compose.yml'), changed)
    await expect(config([], join(folder, 'docker-compose.yml'))).rejects.toThrow(/services.postgres/)
  })
})
