/**
 * A worker lost its execution while its connection to Redis was broken, and then writes files. `keep` rejects
 * that. libs/queue/test/keep.test.ts tests its Lua script.
 */
import {
  CofferdamError,
  newExecutionId,
  type BlobStore,
  type Sandbox,
  type WorkspaceStore,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import { factsOf } from '@cofferdam/workspace-sync'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { createCheckpoints } from '../src/checkpoints.ts'
import { createWorkspaces } from '../src/workspaces.ts'

const executionId = newExecutionId()
const FILES = [{ path: 'checkpoint/a', bytes: Buffer.from('a') }]

/** Redis and blobs in memory. `owned` false: another worker has the execution. */
function scene(owned: boolean) {
  const kept = new Map<string, string>()
  const blobs = new Map<string, Uint8Array>()
  const set = (key: string, value: string): string | null => {
    const before = kept.get(key) ?? null
    kept.set(key, value)
    return before
  }
  const redis = {
    get: async (key: string) => kept.get(key) ?? null,
    set: async (key: string, value: string) => set(key, value),
  } as unknown as Redis
  const store = {
    create: async () => ({
      write: async (part: Uint8Array) => void blobs.set('own', part),
      commit: async () => 'own',
      abort: async () => undefined,
    }),
    delete: async (ref: string) => void blobs.delete(ref),
  } as unknown as BlobStore
  const taken = {
    executionId,
    attempt: 1,
    request: {
      tenant_id: 't',
      checkpoint: { globs: ['checkpoint/*'] },
      workspace: { name: 'w', rules: undefined, on_conflict: 'fail' },
      program: { type: 'script', language: 'python', source: '' },
    },
    signal: new AbortController().signal,
    emit: () => undefined,
    async keep(what: 'checkpoint' | 'workspace', name: string, value: string) {
      if (!owned) throw new CofferdamError('fenced')
      return set(KEYS[what] + name, value)
    },
  } as unknown as Taken
  return { kept, blobs, redis, store, taken }
}

it.each([
  { who: 'the owner', owned: true, ref: 'own', left: ['own'] },
  { who: 'a worker that lost the execution', owned: false, ref: 'other', left: ['other'] },
])('keeps one checkpoint and its blob when $who saves one', async ({ owned, ref, left }) => {
  const { kept, blobs, redis, store, taken } = scene(owned)
  kept.set(KEYS.checkpoint + executionId, 'other')
  blobs.set('other', Buffer.from('other'))
  const checkpoints = createCheckpoints({ redis, blobs: store, onError: () => undefined })
  const checkpoint = await checkpoints.open(taken, { encrypt_outputs: false })
  const saved = checkpoint!.save(FILES)
  if (owned) await saved
  else await expect(saved).rejects.toMatchObject({ code: 'fenced' })
  expect([kept.get(KEYS.checkpoint + executionId), [...blobs.keys()]]).toEqual([ref, left])
})

it('writes neither a session’s sandbox nor its record when the execution is another worker’s', async () => {
  const { kept, redis, taken } = scene(false)
  const key = `${KEYS.workspace}t:ses_1:w`
  kept.set(key, 'of the new owner')
  const bytes = Buffer.from('bytes')
  const facts = { ...factsOf({ bytes }), mode: 0o644 }
  const store = {
    read: async () => ({ version: 1, manifest: new Map([['file', facts]]) }),
    contents: async () => new Map([[facts.sha256, bytes]]),
  } as unknown as WorkspaceStore
  const written: unknown[] = []
  const sandbox = {
    session: { id: 'ses_1', fresh: true },
    write: async (files: unknown) => void written.push(files),
    list: async () => [],
    remove: async (path: string) => void written.push(path),
  } as unknown as Sandbox
  const turn = createWorkspaces({ redis, store }).open(taken)
  await expect(turn!.enter(sandbox, taken.signal)).rejects.toMatchObject({ code: 'fenced' })
  expect([kept.get(key), written]).toEqual(['of the new owner', []])
})
