/**
 * `node tests/e2e/agentcore-harness/main.ts [--live]` runs the suites against the double, or against AWS.
 * Exit status 1 when a suite fails, 2 when the environment lacks something, and then nothing was started.
 */
import { missing } from '@cofferdam/backend-remote/double'
import { openStage } from './stage.ts'
import { SUITES } from './suites.ts'
import { doubleTarget, liveTarget, missingVariables } from './target.ts'

const isLive = process.argv.includes('--live')
const lacking = isLive ? missingVariables(process.env) : []
const why = isLive ? null : missing()
if (lacking.length > 0 || why !== null) {
  console.error(why ?? `Not set: ${lacking.join(', ')}. Nothing was started.`)
  process.exit(2)
}

await using target = isLive ? liveTarget(process.env) : await doubleTarget()
await using stage = await openStage(target)
console.log(`against ${target.name}, ${stage.swept.length} leftovers swept`)
for (const [name, suite] of Object.entries(SUITES)) {
  try {
    await suite(stage)
    console.log(`ok      ${name}`)
  } catch (error) {
    process.exitCode = 1
    console.error(`FAILED  ${name}\n`, error)
  }
}
