/** Claims executions and brings each of them to its ending. */
import './young-generation.ts'
export { loadConfig, loadProvisioning, WORKER_FIELDS, type WorkerConfig } from './config.ts'
export { runWorker, type RunningWorker, type WorkerOptions } from './run-worker.ts'
