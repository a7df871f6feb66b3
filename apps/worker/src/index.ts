/** Takes executions and carries each to its ending. */
export { loadConfig, WORKER_FIELDS, type WorkerConfig } from './config.ts'
export { runWorker, type RunningWorker, type WorkerOptions } from './run-worker.ts'
