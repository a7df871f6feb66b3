/**
 * The last commit of the release before this one. tests/faults/upgrade.long.test.ts upgrades a fleet from it.
 */
export const EARLIER_COMMIT = process.env['COFFERDAM_UPGRADE_FROM'] ?? 'd919028f'
