/** Other people's tools read the OpenAPI document: two linters, and two generators of clients. */
import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describeApi } from '@cofferdam/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const HERE = fileURLToPath(new URL('.', import.meta.url))
/** An install of 320 packages takes a minute on two busy cores. */
const INSTALL_MS = 600_000
const TOOL_MS = 120_000

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cofferdam-openapi-'))
  for (const name of ['package.json', 'redocly.yaml', 'spectral.yaml'])
    await cp(join(HERE, name), join(folder, name))
  // It is no .ts file in the tree, because the modules that it imports are generated only in this test.
  await cp(join(HERE, 'smallest-request.ts.txt'), join(folder, 'smallest-request.ts'))
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(await describeApi()))
  const installed = await run(
    'npm',
    'install',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  )
  expect(installed.output).not.toContain('npm error')
  expect(installed.status).toBe(0)
}, INSTALL_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs a program of PATH in the folder. */
function run(program: string, ...args: string[]): Promise<{ status: number; output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; output: string }>()
  const options = {
    cwd: folder,
    maxBuffer: 16 * 1024 * 1024,
    env: { ...process.env, REDOCLY_TELEMETRY: 'off' },
  }
  execFile(program, args, options, (error, stdout, stderr) =>
    resolve({ status: error === null ? 0 : Number(error.code ?? 1), output: `${stdout}${stderr}` }),
  )
  return promise
}

/** Runs an installed tool on this Node. */
const tool = (path: string, ...args: string[]) => run(process.execPath, join('node_modules', path), ...args)

describe('the OpenAPI document', { timeout: TOOL_MS }, () => {
  it('passes redocly without an error or a warning', async () => {
    const { status, output } = await tool(
      '@redocly/cli/bin/cli.js',
      'lint',
      'openapi.json',
      '--config=redocly.yaml',
    )
    expect(output).toContain('is valid')
    expect(output).not.toMatch(/\bwarnings?\b/i)
    expect(status).toBe(0)
  })

  it('passes spectral without a result of any severity', async () => {
    const lint = ['lint', 'openapi.json', '--ruleset=spectral.yaml', '--fail-severity=hint']
    const { status, output } = await tool('@stoplight/spectral-cli/dist/index.js', ...lint)
    expect(output).toMatch(/^No results with a severity of 'hint'/)
    expect(status).toBe(0)
  })

  it('gives clients whose types accept the smallest request, and refuse one without a program', async () => {
    const types = ['openapi.json', '--output', 'openapi-typescript.ts']
    expect((await tool('openapi-typescript/bin/cli.js', ...types)).status).toBe(0)
    const client = ['--input', 'openapi.json', '--output', 'hey-api']
    expect((await tool('@hey-api/openapi-ts/bin/run.js', ...client)).status).toBe(0)
    // hey-api writes imports for a bundler, so TypeScript must resolve modules in the same way.
    const language = ['--noEmit', '--strict', '--target', 'es2024', '--lib', 'es2024,dom']
    const modules = ['--module', 'esnext', '--moduleResolution', 'bundler', '--allowImportingTsExtensions']
    const files = ['smallest-request.ts', 'hey-api/index.ts']
    const compiled = await tool('typescript/bin/tsc', ...language, ...modules, ...files)
    expect(compiled.output).toBe('')
    expect(compiled.status).toBe(0)
  })
})
