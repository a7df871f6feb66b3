import { isLongTier } from '@cofferdam/embedded/needs'
import { describe, expect, it } from 'vitest'
import { compareToolsets, withoutLineNumbers } from '../../test/compare-toolsets.ts'
import { CASES, type Case } from '../../test/toolset-cases.ts'

async function check({ calls, files, differs = {}, differentFiles = [] }: Case): Promise<void> {
  const { sdk, ours } = await compareToolsets(calls, files)
  for (const at of calls.keys()) {
    const [theirs, own] = [sdk.answers[at]!, ours.answers[at]!].map(withoutLineNumbers)
    const expected = differs[at]
    if (expected === undefined) expect(own, `call ${at}: ${JSON.stringify(calls[at])}`).toEqual(theirs)
    else {
      expect(own, `call ${at}`).not.toEqual(theirs)
      expect(theirs!.text).toMatch(exactly(expected.sdk))
      expect(own!.text).toMatch(exactly(expected.ours))
    }
  }
  for (const path of differentFiles) {
    expect(ours.tree[path]).not.toEqual(sdk.tree[path])
    delete ours.tree[path]
    delete sdk.tree[path]
  }
  expect(ours.tree).toEqual(sdk.tree)
}

const exactly = (text: string | RegExp): RegExp =>
  typeof text === 'string' ? new RegExp(`^${RegExp.escape(text)}$`) : text

/** All cases take 22 CPU seconds. The short tier has every second one. */
const isChosen = (_: Case, at: number): boolean => isLongTier() || at % 2 === 0

describe.each(Object.entries(CASES))("%s answers as the SDK's toolset", (_, cases) => {
  it.each(cases.filter(isChosen))('$name', check)
})
