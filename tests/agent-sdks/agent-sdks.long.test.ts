/**
 * Each adapter of @cofferdam/tools with its SDK, the SDK's own offline model, and a real fleet. The programs
 * run in a project that installs the package from its tarball, as users do.
 */
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createClient } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startUp, type Up } from '../e2e/up.ts'
import { done, INSTALL_MS, ROOT, start } from '../packages/tools.ts'
import { makeProject, type Project } from './project.ts'

const SDKS = ['ai-sdk', 'anthropic', 'claude-agent-sdk', 'langchain', 'mastra', 'openai-agents']

let up: Up
let scenarios: Project
let examples: Project

beforeAll(async () => {
  scenarios = await makeProject('tests/agent-sdks/scenarios')
  examples = await makeProject('examples/agents')
  up = await startUp()
  await using admin = createClient({ baseUrl: up.url, apiKey: up.apiKey })
  await admin.tenants.create({ tenant_id: 'offline' })
  await admin.tenants.changePolicy('offline', { network: 'none' })
}, INSTALL_MS)
afterAll(async () => {
  await up?.stop()
  await scenarios?.[Symbol.asyncDispose]()
  await examples?.[Symbol.asyncDispose]()
})

/** Runs a program of a project with Node, which strips its types. */
const run = async ({ folder }: Project, name: string): Promise<string> => {
  const fleet = { COFFERDAM_URL: up.url, COFFERDAM_API_KEY: up.apiKey, DO_NOT_TRACK: '1' }
  return done(start(process.execPath, [name], folder, fleet))
}

it('has a scenario, an example and an entry of the package for each SDK', async () => {
  const names = async (folder: string): Promise<string[]> =>
    (await readdir(path.join(ROOT, folder)))
      .filter((name) => name.endsWith('.ts'))
      .map((name) => name.slice(0, -3))
  expect(await names('tests/agent-sdks/scenarios')).toEqual(expect.arrayContaining(SDKS))
  expect(await names('examples/agents')).toEqual(expect.arrayContaining(SDKS))
  const manifest = JSON.parse(await readFile(path.join(ROOT, 'libs/tools/package.json'), 'utf8'))
  expect(Object.keys(manifest.exports)).toEqual(expect.arrayContaining(SDKS.map((name) => `./${name}`)))
})

describe.each(['nodenext', 'bundler'] as const)('TypeScript with module resolution %s', (resolution) => {
  it(
    'accepts every adapter where its SDK wants a tool',
    async () => {
      expect(await scenarios.typeErrors(resolution)).toBe('')
      expect(await examples.typeErrors(resolution)).toBe('')
    },
    INSTALL_MS,
  )
})

needs('process').describe.each(SDKS)('%s', (sdk) => {
  it('shows its model results, failures, refusals and images, and cancels', async () => {
    const output = await run(scenarios, `${sdk}.ts`)
    const { seen, ending } = JSON.parse(output.trim().split('\n').at(-1) ?? '')
    expect(seen.ok.text).toMatch(
      /^Ended: ok, exit code 0, \d+ ms\. execution_id: exe_\w+\n\nstdout, \d+ bytes:\n/,
    )
    expect(seen.ok.text.trimEnd().endsWith('bytes:\n6 x 7 = 42')).toBe(true)
    expect(seen.fails.text).toMatch(/^Ended: error, exit code 1/)
    expect(seen.fails.text).toContain('before\n')
    expect(seen.fails.text.trimEnd().endsWith('ValueError: no such colour')).toBe(true)
    expect(seen.refused.text).toMatch(/^Refused: network_not_allowed\. Nothing ran\./)
    expect(ending).toBe('cancelled')
    expect(seen.image.images).toHaveLength(1)
    expect(Buffer.from(seen.image.images[0], 'base64').subarray(1, 4).toString()).toBe('PNG')
    for (const name of ['ok', 'fails', 'refused']) expect(seen[name].images, name).toEqual([])
  })

  it('has an example that prints what its header says', async () => {
    const source = await readFile(path.join(ROOT, 'examples/agents', `${sdk}.ts`), 'utf8')
    const promised = /^ \* Output:\n((?: \* {3}.*\n)+)/m.exec(source)?.[1]?.replaceAll(/^ \* {3}/gm, '')
    expect(promised, 'an Output: block in the header').toBeDefined()
    expect(await run(examples, `${sdk}.ts`)).toBe(promised)
  })
})
