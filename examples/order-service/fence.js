// Why a worker that was paused past its lease can do no harm. See README.md, "A lease is not enough".

/** A run with a greater token has begun: whatever this one knows is out of date. */
export class StaleRunError extends Error {
  name = 'StaleRunError';
}

/**
 * To be called when a run begins, BEFORE it reads: from here on no earlier run can write, so what is read now
 * stays true until this run, or a later one, changes it.
 */
export async function raiseFence(database, job, token) {
  if (token === undefined) return; // --without-lock: there is no token, and so no fence.
  await database.transaction(() => {
    refuseStale(database, job, token);
    database.run(
      'insert into fences (job, token) values (?, ?) on conflict (job) do update set token = excluded.token',
      job,
      token,
    );
  });
}

/** To be called INSIDE the transaction of every write, so that nothing comes between the look and the write. */
export function refuseStale(database, job, token) {
  if (token === undefined) return;
  const [fence] = database.all('select token from fences where job = ?', job);
  if (fence !== undefined && fence.token > token) {
    throw new StaleRunError(`${job}: token ${token} is too old, ${fence.token} has been here`);
  }
}
