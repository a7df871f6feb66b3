/** Which backends `cofferdam up` tries: those of its worker, and no others. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { findBackends } from '../src/local-backends.ts'
import { runHere } from './command-here.ts'

it('probes only backends that the worker would have, and doctor probes all but the doubles', async () => {
  const stop = AbortSignal.abort(new Error('no probe is awaited'))
  const environment = { COFFERDAM_BACKENDS: 'none,fake' }
  const names = async (which: 'configured' | 'every'): Promise<string[]> =>
    (await findBackends(environment, which, stop)).map(({ name }) => name)
  expect(await names('configured')).toEqual(['none'])
  expect(await names('every')).toEqual(
    expect.arrayContaining(['docker', 'gvisor', 'microvm', 'none', 'process']),
  )
  expect(await names('every')).not.toContain('fake')
})

it('refuses to start with an unsafe backend alone, and names it', async () => {
  const cwd = mkdtempSync(path.join(tmpdir(), 'cofferdam-up-'))
  onTestFinished(() => rmSync(cwd, { recursive: true }))
  const { status, stderr } = await runHere(['up', '--once', '--port', '0'], {
    cwd,
    env: { COFFERDAM_BACKENDS: 'none', COFFERDAM_DATA_DIR: path.join(cwd, 'data') },
  })
  expect(status).toBe(1)
  expect(stderr).toContain('The worker would have these backends: none')
})
