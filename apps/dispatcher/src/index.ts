/** Serves Anthropic Managed Agents environments with our sandboxes. */
export { DISPATCHER_FIELDS, loadConfig, type DispatcherConfig, type EnvironmentConfig } from './config.ts'
export { runDispatcher, type DispatcherOptions, type RunningDispatcher } from './run-dispatcher.ts'
