import type { ProgramFile } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { attemptOf, harness } from '../test/attempts.ts'
import { exitOf, never, scriptedBackend, type Script } from '../test/scripted-backend.ts'

const STATE: ProgramFile = { path: 'state.json', bytes: Buffer.from('{}') }

/** Runs a program whose sandbox copies files with `snapshot`, and which ends when `ended` settles. */
async function executed(snapshot: NonNullable<Script['snapshot']>, ended: Promise<unknown>, exitCode = 0) {
  const backend = scriptedBackend({
    snapshot,
    files: { 'state.json': '{}' },
    run: async () => {
      await ended
      return exitOf({ exitCode })
    },
  })
  const saved: string[][] = []
  const firstSaved = Promise.withResolvers<void>()
  const checkpoint = {
    globs: ['*.json'],
    everyMs: 1,
    restore: [],
    save: async (files: readonly ProgramFile[]) => {
      saved.push(files.map(({ path }) => path))
      firstSaved.resolve()
    },
  }
  const outcome = harness([backend]).executor.execute(attemptOf({}, { checkpoint }))
  return { outcome, backend, saved, firstSaved: firstSaved.promise }
}

it('copies files while the program runs', async () => {
  const end = Promise.withResolvers<void>()
  const { outcome, saved, firstSaved } = await executed(async () => [STATE], end.promise)
  await firstSaved
  end.resolve()
  expect((await outcome).ending).toBe('ok')
  expect(saved[0]).toEqual(['state.json'])
})

it('the attempt ends with its program even if a requested copy never arrives', async () => {
  const asked = Promise.withResolvers<void>()
  const hangs = (): Promise<never> => (asked.resolve(), never())
  const { outcome, backend, saved } = await executed(hangs, asked.promise)
  expect((await outcome).ending).toBe('ok')
  expect(backend.live).toBe(0)
  expect(saved).toEqual([])
})

it('saves the files of a failed program although an earlier copy never arrived', async () => {
  const asked = Promise.withResolvers<void>()
  const hangs = (): Promise<never> => (asked.resolve(), never())
  const { outcome, saved } = await executed(hangs, asked.promise, 1)
  expect((await outcome).ending).toBe('error')
  expect(saved).toEqual([['state.json']])
})
