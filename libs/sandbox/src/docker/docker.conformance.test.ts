import Docker from 'dockerode'
import { type Sandbox, type WorkerId, newWorkerId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { exerciseBackend, warmSlots, type ExerciseOptions } from '../../conformance/index.ts'
import { createDockerBackend } from './index.ts'

const docker = new Docker()
const outside: ExerciseOptions = {
  needs: ['docker'],
  leftovers: async (owner: WorkerId) => {
    const filters = { label: [`cofferdam.owner=${owner}`] }
    return (await docker.listContainers({ all: true, filters })).map((found) => found.Names.join())
  },
  destroyUnderneath: async (sandbox: Sandbox) => {
    await docker.getContainer(`cofferdam-${sandbox.ref.handle['slot']}`).kill()
  },
}

await exerciseBackend('docker', () => createDockerBackend(), outside)

if (isLongTier()) {
  const attach = 'docker on the attach stream'
  await exerciseBackend(attach, () => createDockerBackend({ transport: 'attach' }, {}, attach), outside)

  const pools = 'docker with pools'
  const warmOwner = newWorkerId('c0ffee000001')
  await exerciseBackend(pools, () => createDockerBackend({}, { warm: warmSlots(warmOwner) }, pools), {
    ...outside,
    warmOwner,
  })
}
