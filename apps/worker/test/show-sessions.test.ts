/** How often a worker announces the sessions that only it can reach. */
import { newExecutionId, newSessionId, newWorkerId, type SessionEntry } from '@cofferdam/contract'
import { expect, test, vi } from 'vitest'
import { showSessions, type ShownState } from '../src/show-sessions.ts'

const name = { tenantId: 'acme', backend: 'process', key: 'notebook' }
const entry: SessionEntry = {
  sessionId: newSessionId(),
  scope: 'files',
  epoch: 0,
  handle: {},
  createdAtMs: 1,
  usedAtMs: 1,
  executionId: newExecutionId(),
  idleAtMs: 2,
  expiresAtMs: 2,
}
const busy: ShownState = { entry, isBusy: true }
const idle: ShownState = { entry, isBusy: false }
const HOUR_MS = 3_600_000

function recording(paceMs: number) {
  const told: ShownState[] = []
  const sessions = {
    announce: async (_name: unknown, _owner: unknown, state: ShownState) => void told.push(state),
  }
  const onError = (error: unknown): void => {
    throw error
  }
  return { told, shown: showSessions({ sessions, self: newWorkerId('0123456789ab'), onError, paceMs }) }
}

test('announces a change at once, and only the last of several changes that follow soon', async () => {
  const { told, shown } = recording(1)
  shown.show(name, busy)
  expect(told).toEqual([busy])
  for (let turn = 0; turn < 100; turn++) shown.show(name, turn % 2 === 0 ? idle : busy)
  shown.show(name, idle)
  await vi.waitFor(() => expect(told).toEqual([busy, idle]), 15_000)
  await shown[Symbol.asyncDispose]()
})

test('delays changes, but never the end of a session', async () => {
  const { told, shown } = recording(HOUR_MS)
  shown.show(name, busy)
  shown.show(name, idle)
  shown.show(name, null)
  await vi.waitFor(() => expect(told).toEqual([busy, null]), 15_000)
  await shown[Symbol.asyncDispose]()
})

test('limits the pace of a session that reuses the name of an ended one', async () => {
  const { told, shown } = recording(HOUR_MS)
  shown.show(name, busy)
  shown.show(name, null)
  await vi.waitFor(() => expect(told).toEqual([busy, null]), 15_000)
  shown.show(name, busy)
  await vi.waitFor(() => expect(told).toEqual([busy, null, busy]), 15_000)
  shown.show(name, idle)
  await shown[Symbol.asyncDispose]()
  expect(told).toEqual([busy, null, busy, null])
})
