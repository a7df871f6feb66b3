/** Declares a suite once per backend under attack, with its worker, and looks for leftovers after every test. */
import { readFileSync } from 'node:fs'
import type { Capabilities, ExecutionRequestInput } from '@cofferdam/contract'
import { afterAll, afterEach, describe, expect, vi } from 'vitest'
import { crowdOf, leftoversOf, slotsOf } from './host.ts'
import { startTarget, TARGETS, type Target, type TargetKind } from './target.ts'

/** Slow and busy machines need ten times what a quiet one needs. */
const TEST_MS = 90_000

interface Choice {
  /** Leaves out targets that do not promise what the suite asks, or where another one stands for them. */
  where?: (kind: TargetKind) => boolean
  /** What the worker has besides. */
  more?: Partial<TargetKind>
  /** What the backend must offer on this host; else the target is skipped, with this word. */
  offers?: { word: string; isThere: (capabilities: Capabilities) => boolean }
}

/** Call at the top level of a file, awaited. */
export async function onTargets(
  suite: (target: Target) => void,
  { where = () => true, more = {}, offers }: Choice = {},
): Promise<void> {
  const targets = await Promise.all(TARGETS.filter(where).map((kind) => startTarget({ ...kind, ...more })))
  for (const target of targets) {
    if (target.absent !== null && process.env['COFFERDAM_REQUIRE'] === 'all')
      throw new Error(`${target.name}: ${target.absent}`)
    const lacks =
      offers === undefined || target.capabilities === null || offers.isThere(target.capabilities)
        ? null
        : `offers no ${offers.word}`
    const why = target.absent ?? lacks
    const title = why === null ? target.name : `${target.name} (skipped: ${why})`
    describe.skipIf(why !== null)(title, { timeout: TEST_MS }, () => {
      // A worker answers before the sandbox is gone; `run` and `gone` wait for the proof, so nothing may be left by then.
      afterEach(async () => {
        await target.settle()
        const slots = slotsOf(target)
        expect(leftoversOf(target, slots), 'left behind on the host').toEqual([])
        if (crowdOf(target, slots).length > 0) await eventually(() => expect(crowdOf(target)).toEqual([]))
      })
      suite(target)
    })
  }
  afterAll(async () => {
    await Promise.all(targets.map((target) => target[Symbol.asyncDispose]()))
  })
}

/** An attack program of the folder `programs`. */
export const program = (name: string): ExecutionRequestInput['program'] => ({
  type: 'script',
  language: 'python',
  source: readFileSync(new URL(`programs/${name}.py`, import.meta.url), 'utf8'),
})

/** Polls until the host says so; for what ends a moment after the answer. */
export const eventually = (check: () => void): Promise<void> =>
  vi.waitFor(check, { timeout: 20_000, interval: 20 })
