-- Which of :ids are live.
SELECT job.id, job.spilled != 0
FROM json_each(:ids) AS wanted
CROSS JOIN __alkstore_live AS job
WHERE job.id = wanted.value;
