import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

/** Every module that an import loads, found in a separate process. */
async function importedBy(path: string): Promise<string[]> {
  const code = `
    import { registerHooks } from 'node:module'
    const seen = []
    registerHooks({ resolve: (specifier, context, next) => (seen.push(specifier), next(specifier, context)) })
    await import(process.argv[1])
    console.log(JSON.stringify(seen))`
  const file = fileURLToPath(new URL(path, import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code, file])
  return JSON.parse(stdout) as string[]
}

describe('importing', () => {
  it('the api part loads neither the SDK nor the logger', async () => {
    const packages = (await importedBy('../src/api.ts')).filter(
      (s) => /^[@a-z]/.test(s) && !s.startsWith('node:'),
    )
    expect([...new Set(packages)].filter((s) => !/^(file:|zod)/.test(s)).toSorted()).toEqual([
      '@cofferdam/contract',
      '@opentelemetry/api',
    ])
  })

  it('the whole lib loads no SDK before telemetry is started', async () => {
    const seen = await importedBy('../src/index.ts')
    expect(seen).toContain('pino')
    expect(seen.filter((s) => /opentelemetry\/(?!api)/.test(s))).toEqual([])
  })
})
