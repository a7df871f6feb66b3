/** Warm pods of a worker: healthy ones get the next program, hanging ones do not. */
import { newWorkerId, type Sandbox, type SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { createKubernetesBackend } from '../src/index.ts'
import type { WarmEvent } from '@cofferdam/sandbox/warm'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const FLEET = '4be24be24be2'
const PROGRAM = python('print(6 * 7)')
/** How long to wait for an action of the worker or the double. */
const SOON = { timeout: 30_000, interval: 10 }

needs('bwrap').describe('warm pods of the kubernetes backend', () => {
  let double: KubernetesDouble
  beforeAll(async () => {
    double = await startKubernetesDouble({ replicas: 1 })
  })
  afterEach(() => {
    expect(double.claims(), 'claims that are left').toEqual([])
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  function worker() {
    const owner = newWorkerId(FLEET)
    const events: WarmEvent[] = []
    const warm = { ...warmSlots(owner), observe: (event: WarmEvent) => void events.push(event) }
    const backend = createKubernetesBackend({ api_server: double.origin, token_file: null }, { warm })
    const open = async (more: Partial<SandboxSpec> = {}): Promise<Sandbox> =>
      await backend.open({ ...jobSpec(FLEET, PROGRAM), owner, ...more }, AbortSignal.timeout(40_000))
    return { backend, open, events }
  }
  const claimOf = (sandbox: Sandbox): string => String(sandbox.ref.handle['claim'])

  /** A worker with one warm slot, and the slot's claim. */
  async function withOneWaiting() {
    const { backend, open, events } = worker()
    backend.prewarm?.()
    await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('warmed'), SOON)
    const [claim] = double.claims().map(({ name }) => name)
    return { backend, open, events, claim: String(claim) }
  }

  it('get the next program if they are healthy', async () => {
    const { backend, open, claim } = await withOneWaiting()
    await using _closed = backend
    await using sandbox = await open()
    expect([sandbox.warm, claimOf(sandbox)]).toEqual([true, claim])
    expect(await printed(sandbox, PROGRAM)).toBe('42\n')
  })

  it('get no program if they hang, and are gone after their worker', async () => {
    const { backend, open, claim, events } = await withOneWaiting()
    await using _closed = backend
    await double.hangPod(claim)
    await using sandbox = await open()
    expect(claimOf(sandbox)).not.toBe(claim)
    expect(await printed(sandbox, PROGRAM)).toBe('42\n')
    expect(events).toContainEqual({ type: 'dropped', backend: 'kubernetes', why: 'died' })
  })

  it('replace the hanging pod of a session and report the fresh start', async () => {
    const { backend, open } = worker()
    await using _closed = backend
    const session = { reuse: 'session', session: { key: 'k', scope: 'files', idleMs: null } } as const
    const first = await open(session)
    expect(await printed(first, PROGRAM)).toBe('42\n')
    await first[Symbol.asyncDispose]()
    await double.hangPod(claimOf(first))
    await using second = await open(session)
    expect(second.session?.fresh).toBe(true)
    expect(second.session?.id).not.toBe(first.session?.id)
    expect(await printed(second, PROGRAM)).toBe('42\n')
  })
})
