/** Kills a worker in every phase of an execution. Nothing keeps running, and others end its claim. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { newSandboxId, newWorkerId, type SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { createKubernetesBackend } from '../src/index.ts'
import { claimPath, setShutdown } from './cluster.ts'
import { jobSpec, python } from '@cofferdam/backend-remote/testing'

/** How long to wait for an action of another process or of the double. */
const SOON = { timeout: 40_000, interval: 20 }
const ENDLESS = python("import time; print('up', flush=True); time.sleep(600)")

needs('bwrap').describe('a killed worker of the kubernetes backend', () => {
  let double: KubernetesDouble
  beforeAll(async () => {
    double = await startKubernetesDouble({ replicas: 1 })
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })
  const settings = () => ({ api_server: double.origin, token_file: null })
  const claimed = (): string[] => double.running().flatMap(({ claim }) => (claim === null ? [] : [claim]))

  /** Runs the worker until the given moment and kills it. Returns the spec of its sandbox. */
  async function killedAt(stopAt: string): Promise<SandboxSpec> {
    // Each execution runs in its own worker, so it gets a new worker ID.
    const spec = {
      ...jobSpec('4be24be24be2', ENDLESS),
      sandboxId: newSandboxId(),
      owner: newWorkerId('4be24be24be2'),
    }
    const script = new URL('job-that-dies.ts', import.meta.url)
    const child = fork(script, [JSON.stringify({ settings: settings(), spec, stopAt })], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const exited = once(child, 'exit')
    const here =
      stopAt === 'waiting'
        ? vi.waitFor(() => expect(double.claims()).toHaveLength(1), SOON)
        : once(child, 'message')
    await Promise.race([here, exited.then(() => Promise.reject(new Error('it ended by itself')))])
    if (stopAt === 'ending') {
      // Only later requests count: the claim's lifetime was set with an earlier request to the same path.
      const before = double.requests.length
      const path = claimPath(String(double.claims()[0]?.name))
      await vi.waitFor(() => expect(double.requests.slice(before)).toContain(path), SOON)
    }
    child.kill('SIGKILL')
    await exited
    return spec
  }

  const PHASES: [stopAt: string, what: string][] = [
    ['waiting', 'while its claim waits for a pod'],
    ['opened', 'before its program runs'],
    ['running', 'while its program runs'],
    ['ending', 'while it deletes its claim'],
  ]
  for (const by of ['the janitor of another worker', 'the cluster’s clock']) {
    it.each(PHASES)(`(%s) %s: leaves only a claim that ${by} deletes`, async (stopAt) => {
      const letThrough = stopAt === 'waiting' ? double.holdClaims() : () => undefined
      if (stopAt === 'ending') double.fault({ busy_deletes: Infinity })
      const spec = await killedAt(stopAt)
      double.fault({ busy_deletes: 0 })
      letThrough()
      // Without a connection the agent ends its program and itself. A pod without a worker runs no program.
      if (stopAt !== 'waiting') await vi.waitFor(() => expect(claimed()).toEqual([]), SOON)
      const [claim] = double.claims()
      expect(claim?.labels['cofferdam.dev/owner']).toBe(spec.owner)
      const leftMs = Date.parse(claim?.shutdownTime ?? '') - Date.now()
      expect(leftMs).toBeLessThan(spec.limits.hard_timeout_ms + 180_000)
      if (by === 'the cluster’s clock') {
        await setShutdown(double, String(claim?.name), -1000)
      } else {
        await using other = createKubernetesBackend(settings())
        expect(await other.owners()).toEqual([spec.owner])
        expect(await other.sweep(spec.owner)).toEqual({ destroyed: 1 })
      }
      await vi.waitFor(() => expect([double.claims(), claimed()]).toEqual([[], []]), SOON)
    })
  }
})
