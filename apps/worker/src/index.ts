/** Takes executions and carries each to its ending. */
import './young-generation.ts'
export { loadConfig, loadProvisioning, WORKER_FIELDS, type WorkerConfig } from './config.ts'
export { runWorker, type RunningWorker, type WorkerOptions } from './run-worker.ts'
