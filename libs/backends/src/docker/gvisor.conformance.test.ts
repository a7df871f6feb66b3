import Docker from 'dockerode'
import { exerciseBackend } from '../../conformance/index.ts'
import { gvisorConfigSchema } from './config.ts'
import { createDockerBackend } from './index.ts'

const docker = new Docker()

await exerciseBackend('gvisor', () => createDockerBackend(gvisorConfigSchema.parse({}), {}, 'gvisor'), {
  leftovers: async (owner) => {
    const filters = { label: [`cofferdam.owner=${owner}`] }
    return (await docker.listContainers({ all: true, filters })).map((found) => found.Names.join())
  },
  destroyUnderneath: async (sandbox) => {
    await docker.getContainer(`cofferdam-${sandbox.id}`).kill()
  },
})
