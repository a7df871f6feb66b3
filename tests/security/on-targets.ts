/** Declares a suite once per backend under attack, with its worker, and looks for leftovers. */
import { readFileSync } from 'node:fs'
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'
import { crowdOf, leftoversOf, slotsOf } from './host.ts'
import { isDaily, startTarget, TARGETS, type Target, type TargetKind } from './target.ts'

/** Slow and busy machines need ten times as long as a quiet one, and emulated ones longer still. */
const TEST_MS = 300_000

interface Choice {
  /** Default: all of `TARGETS`. */
  kinds?: readonly TargetKind[]
  /** Leaves out targets that do not promise what the suite tests, or that another target represents. */
  where?: (kind: TargetKind) => boolean
  /** The targets among these that `npm test` attacks (the long tier: all). Default: `isDaily`. */
  daily?: (kind: TargetKind) => boolean
  /** Additional settings of the worker. */
  more?: Partial<TargetKind>
}

/** Call it at the top level of a file, with await. */
export async function onTargets(
  suite: (target: Target) => void,
  { kinds = TARGETS, where = () => true, daily = isDaily, more = {} }: Choice = {},
): Promise<void> {
  const isChosen = (kind: TargetKind): boolean => where(kind) && (isLongTier() || daily(kind))
  const targets = await Promise.all(
    kinds.filter(isChosen).map(async (kind) => {
      const needed = needs(...kind.needs)
      return {
        kind,
        needed,
        target: needed.lacking === null ? await startTarget({ ...kind, ...more }) : null,
      }
    }),
  )
  for (const { kind, needed, target } of targets) {
    if (target === null) {
      // A suite may ask a running target while it declares its tests. Without a target, declare one test in
      // its place.
      needed.it(kind.name, () => undefined)
      continue
    }
    needed.describe(target.name, { timeout: TEST_MS }, () => {
      beforeAll(() => {
        if (target.absent !== null) throw new Error(`${target.name}: ${target.absent}`)
      })
      // A worker answers before the sandbox is gone. `run` and `gone` wait for the proof.
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
    await Promise.all(targets.map(async ({ target }) => target?.[Symbol.asyncDispose]()))
  })
}

/** An attack program from the folder `programs`. */
export const program = (name: string): ExecutionRequestInput['program'] => ({
  type: 'script',
  language: 'python',
  source: readFileSync(new URL(`programs/${name}.py`, import.meta.url), 'utf8'),
})

/** Polls until the check passes, for what ends a moment after the answer. */
export const eventually = (check: () => void): Promise<void> =>
  vi.waitFor(check, { timeout: 20_000, interval: 20 })
