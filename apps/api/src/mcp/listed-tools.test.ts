/** A tool's description is part of every client's prompt, so each change of it must be seen in review. */
import { expect, it } from 'vitest'
import { LISTED_TOOLS } from './create-server.ts'

it('are what listed-tools.snap says; after a change, review it and write it with vitest -u', async () => {
  await expect(`${JSON.stringify(LISTED_TOOLS, null, 2)}\n`).toMatchFileSnapshot('listed-tools.snap')
})
