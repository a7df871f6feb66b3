import type { Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import type { DockerConfig } from './config.ts'
export const createBackend = (_config: DockerConfig, _deps: BackendDeps, _name: string): Promise<Backend> =>
  Promise.reject(new Error('soon'))
