/**
 * Reads an app's configuration from the environment and from a YAML file, checks it with zod schemas, and
 * reports all problems at once.
 */
export { BLOB_FIELDS, blobPlaceOf } from './blob-fields.ts'
export { COMMON_FIELDS, redisUrl, urlOf, wholeNumber } from './common-fields.ts'
export { nearestName } from './nearest-name.ts'
export { printConfig, readConfig, type ConfigField, type ConfigOf, type LoadedConfig } from './read-config.ts'
export { configProblems, readAll } from './read-all.ts'
export { readConfigFile, readFileOf } from './read-config-file.ts'
export { KNOWN_VARIABLES, commaList } from './variables.ts'
