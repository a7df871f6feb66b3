/** Programs of type `tests` and `install`: turns them into commands, and reads the reports of the runs. */
export { commandNotFound, COMMAND_NOT_FOUND_EXIT } from './test-run/missing-runner.ts'
export { explainPackages } from './install/explain-packages.ts'
export { NO_PACKAGES, type PackageAccess, type PackagesSeen } from './install/package-access.ts'
export { refusePackages } from './install/plan-install.ts'
export { isTask, planTask, TASK_CARRIER, type Task, type TaskEnd } from './task.ts'
export { TaskRefusal } from './task-refusal.ts'
