import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { loadConfig } from './config.ts'

const dir = mkdtempSync(path.join(os.tmpdir(), 'cofferdam-worker-config-'))
afterAll(() => rmSync(dir, { recursive: true }))

const stores = { REDIS_URL: 'redis://h', DATABASE_URL: 'postgres://h/d' }
const file = (text: string) => {
  const name = path.join(mkdtempSync(path.join(dir, 'case-')), 'cofferdam.config.yaml')
  writeFileSync(name, text)
  return name
}

it('uses the default backends, strongest isolation first', () => {
  const config = loadConfig(stores)
  expect(Object.keys(config.backends)).toEqual(['gvisor', 'docker', 'process'])
  expect(config).toMatchObject({ lanes: ['interactive', 'routine'], drainMs: 25_000, logLevel: 'info' })
})

it('takes the backends from the file, and the environment chooses among them', () => {
  const configFile = file('backends:\n  docker:\n    image: mine\n  process: {}\n')
  const fromFile = loadConfig({ ...stores, COFFERDAM_CONFIG: configFile })
  expect(fromFile.backends).toEqual({
    docker: expect.objectContaining({ image: 'mine' }),
    process: expect.anything(),
  })
  const preferred = file('backends:\n  process: {}\n  gvisor: {}\n  docker: {}\n')
  expect(Object.keys(loadConfig({ ...stores, COFFERDAM_CONFIG: preferred }).backends)).toEqual([
    'process',
    'gvisor',
    'docker',
  ])
  const named = loadConfig({ ...stores, COFFERDAM_CONFIG: configFile, COFFERDAM_BACKENDS: 'process' })
  expect(Object.keys(named.backends)).toEqual(['process'])
})

it.each([
  [{ COFFERDAM_BACKENDS: 'dokcer' }, /there is no backend dokcer/],
  [
    { COFFERDAM_SLOTS: '0', REDIS_URL: '' },
    /REDIS_URL: it is not set.*COFFERDAM_SLOTS: expected at least 1/s,
  ],
  [{ COFFERDAM_LANES: 'fast' }, /COFFERDAM_LANES/],
  [
    { COFFERDAM_CONFIG: file('backends:\n  docker:\n    imgae: x\n') },
    /backends\.docker: Unrecognized key: "imgae"/,
  ],
])('refuses the configuration %j', (env, message) => {
  expect(() => loadConfig({ ...stores, ...env })).toThrow(message)
})

it('reports every problem of the environment and of the file at once', () => {
  const configFile = file(
    'backends:\n  docekr: {}\n  process: { pyhton: x }\n' +
      'sandbox: { backend: gviser }\nwarm: { cells: { max: 0 } }\n',
  )
  const load = () =>
    loadConfig({ COFFERDAM_CONFIG: configFile, COFFERDAM_SLOTS: '0', COFFERDAM_BACKENDS: 'dokcer,process' })
  for (const problem of [
    /8 problem\(s\)/,
    /REDIS_URL: it is not set/,
    /DATABASE_URL: it is not set/,
    /COFFERDAM_BACKENDS: there is no backend dokcer; did you mean docker\?/,
    /COFFERDAM_SLOTS: expected at least 1/,
    /backends: Unrecognized key: "docekr"; did you mean docker\?/,
    /backends\.process: Unrecognized key: "pyhton"; did you mean python\?/,
    /sandbox\.backend: there is no backend gviser; did you mean gvisor\?/,
    /warm\.cells\.max: Too small/,
  ])
    expect(load).toThrow(problem)
})

const SEED = `tier: 3
sandbox:
  backend: docker
  memory_limit: 256m
  cpu_limit: 0.5
  network: false
  timeout: 30s
`

it('reads the sandbox section of an agent platform’s workspace', () => {
  const config = loadConfig({ ...stores, COFFERDAM_CONFIG: file(SEED) })
  expect(Object.keys(config.backends)).toEqual(['docker'])
  expect(config.sandbox).toEqual({
    backend: 'docker',
    memory_limit: 256,
    cpu_limit: 0.5,
    network: false,
    timeout: 30_000,
  })
  const named = loadConfig({ ...stores, COFFERDAM_CONFIG: file(SEED), COFFERDAM_BACKENDS: 'process' })
  expect(Object.keys(named.backends)).toEqual(['process'])
})

it.each([
  [1, []],
  [2, []],
  [3, ['gvisor', 'docker']],
  [4, ['none']],
])('uses the backends of tier %i', (tier, names) => {
  const { backends, sandbox } = loadConfig({ ...stores, COFFERDAM_CONFIG: file(`tier: ${tier}\n`) })
  expect(Object.keys(backends)).toEqual(names)
  expect(sandbox).toEqual({ network: true })
})

it.each([
  ['tier: 5', /tier: /],
  ['sandbox: { backend: dokcer }', /sandbox\.backend: there is no backend dokcer/],
  ['sandbox: { memory_limit: 256q }', /sandbox\.memory_limit: expected a size/],
  ['sandbox: { timeout: soon }', /sandbox\.timeout: expected a time/],
  ['sandbox: { cpu_limit: lots }', /sandbox\.cpu_limit/],
  ['sandbox: { memory: 1g }', /sandbox: Unrecognized key: "memory"/],
])('refuses the file %s', (text, message) => {
  expect(() => loadConfig({ ...stores, COFFERDAM_CONFIG: file(text) })).toThrow(message)
})
