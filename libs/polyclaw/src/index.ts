/** Polyclaw's sandbox: HTTP paths, settings, switch and session pool. API, workers and CLI mount it. */
export { addSandboxRoutes } from './routes.ts'
export type { RouteDeps } from './route-deps.ts'
export { createWorkerPart, type WorkerPart } from './worker-part.ts'
export {
  makeSandboxPool,
  previewSandboxPool,
  removeSandboxPool,
  type PoolPreview,
  type RemovedPool,
} from './pool-work.ts'
export { createSandboxConfigs, type SandboxConfigs, type SandboxSettings } from './settings-table.ts'
