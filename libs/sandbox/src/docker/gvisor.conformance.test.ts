import Docker from 'dockerode'
import { type Sandbox, type WorkerId, newWorkerId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { exerciseBackend, KERNEL_THEMES, warmSlots, type ExerciseOptions } from '../../conformance/index.ts'
import type { BackendDeps } from '../deps.ts'
import { gvisorConfigSchema } from './config.ts'
import { createDockerBackend } from './index.ts'

const docker = new Docker()
const gvisor = (name: string, deps: BackendDeps = {}): ReturnType<typeof createDockerBackend> =>
  createDockerBackend(gvisorConfigSchema.parse({}), deps, name)
const outside: ExerciseOptions = {
  needs: ['gvisor'],
  leftovers: async (owner: WorkerId) => {
    const filters = { label: [`cofferdam.owner=${owner}`] }
    return (await docker.listContainers({ all: true, filters })).map((found) => found.Names.join())
  },
  destroyUnderneath: async (sandbox: Sandbox) => {
    await docker.getContainer(`cofferdam-${sandbox.ref.handle['slot']}`).kill()
  },
}

await exerciseBackend('gvisor', () => gvisor('gvisor'), { ...outside, shortThemes: KERNEL_THEMES })

if (isLongTier()) {
  const pools = 'gvisor with pools'
  const warmOwner = newWorkerId('c0ffee000002')
  await exerciseBackend(pools, () => gvisor(pools, { warm: warmSlots(warmOwner) }), {
    ...outside,
    warmOwner,
  })
}
