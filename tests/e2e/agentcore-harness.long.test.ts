/**
 * The harness against the double: suites pass, and everything is deleted. If a setting is missing, a run
 * against AWS starts nothing.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { checkLeaks } from './agentcore-harness/leak-check.ts'
import { openStage, type Stage } from './agentcore-harness/stage.ts'
import { SUITES } from './agentcore-harness/suites.ts'
import { doubleTarget, type Target } from './agentcore-harness/target.ts'

const MAIN = fileURLToPath(new URL('agentcore-harness/main.ts', import.meta.url))
const withBwrap = needs('bwrap')
const DAY_MS = 86_400_000

withBwrap.describe('the agentcore harness', { timeout: 180_000 }, () => {
  let target: Target
  let stage: Stage
  const left = { old: '', young: '' }
  beforeAll(async () => {
    target = await doubleTarget()
    const leave = (slug: string): string =>
      target.double!.stock.create({
        name: `cfde2e_${slug}_0123456789abcdef_pub`,
        networkConfiguration: { networkMode: 'PUBLIC' },
      }).codeInterpreterId
    Object.assign(left, { old: leave('sandboxe2e0001'), young: leave('sandboxe2e0002') })
    target.double?.stock.age(left.old, DAY_MS + 60_000)
    target.double?.stock.age(left.young, DAY_MS / 2)
    stage = await openStage(target)
  })
  afterAll(async () => {
    await stage?.[Symbol.asyncDispose]()
    await target?.[Symbol.asyncDispose]()
  })

  it('deletes what an earlier run left a day ago', () => {
    expect(stage.swept.map(({ interpreter_id: id }) => id)).toEqual([left.old])
  })

  it.each(Object.entries(SUITES))('%s', async (_, suite) => {
    await suite(stage)
  })

  it('finds a secret that is stored in clear text', async () => {
    const tenant = await stage.newTenant()
    // The tenant ID is stored everywhere, so it can play the part of a leaked key.
    const credentials = { accessKeyId: '', secretAccessKey: tenant.id }
    const leaky = { ...stage, target: { ...stage.target, credentials } }
    await expect(checkLeaks(leaky, tenant)).rejects.toThrow(/the secret key stands in/)
  })

  it('deletes everything at the end, also what a failed suite left', async () => {
    target.double?.fault({ operation: 'GetCodeInterpreter', error: 'AccessDeniedException', times: 2 })
    await expect(stage.newTenant()).rejects.toThrow(/was not provisioned/)
    expect(target.double?.stock.ready().length).toBeGreaterThan(1)
    await stage[Symbol.asyncDispose]()
    expect(target.double?.stock.ready()).toEqual([left.young])
    expect(target.double?.data.sessions.running()).toEqual([])
  })

  it('lists every missing setting for a run against AWS, and starts nothing', async () => {
    const run = promisify(execFile)(process.execPath, [MAIN, '--live'], {
      env: { PATH: process.env['PATH'], AWS_REGION: 'eu-west-1' },
    })
    await expect(run).rejects.toMatchObject({
      code: 2,
      stderr: 'Not set: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY. Nothing was started.\n',
    })
  })
})
