/** Plays one schedule, checks all invariants after each step, and lets the fleet come to rest. */
import { idleSlots, RELEASES } from './idle-slots.ts'
import { brokenInvariants, newMemory } from './invariants.ts'
import { comeToRest, unsettledAtRest } from './rest.ts'
import { snapshot } from './snapshot.ts'
import type { Step } from './steps.ts'
import { World, type Transport } from './world.ts'

/** Throws an error that names the step after which an invariant broke. */
export async function play(transport: Transport, steps: readonly Step[]): Promise<void> {
  const world = new World(transport)
  const memory = newMemory()
  await world.open()
  const check = async (after: string, releases = false): Promise<void> => {
    const shot = await snapshot(transport.redis)
    const broken = [
      ...world.problems,
      ...brokenInvariants(shot, memory),
      ...(releases ? idleSlots(shot) : []),
    ]
    world.story.push(after)
    if (broken.length > 0) throw new Error(`${broken.join('\n')}\n${world.story.join('\n')}`)
  }
  for (const [index, step] of steps.entries()) {
    await world.apply(step)
    await check(`${index + 1}. ${JSON.stringify(step)}`, RELEASES.has(step.do))
  }
  await comeToRest(world, check)
  const unsettled = await unsettledAtRest(world)
  if (unsettled.length > 0) throw new Error(`${unsettled.join('\n')}\n${world.story.join('\n')}`)
}
