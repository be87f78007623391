-- Schema 24: two files are one recording only when all their bytes are equal.
-- docs/catalog-reference.md says what every column means.

-- Until now a file was taken for a recording that is known by blocks of its bytes alone. Whatever
-- lies at several places, or lay, is read once more by the next enqueue, and told apart where its
-- bytes differ; but for small files, whose fingerprint is of all bytes, and what `verify` has read.
ALTER TABLE place ADD COLUMN unproven INTEGER NOT NULL DEFAULT 0 CHECK (unproven IN (0, 1));
UPDATE place SET unproven = 1
WHERE state <> 'replaced'
  AND (SELECT count(*) FROM place o WHERE o.media_id = place.media_id) > 1
  AND (SELECT size_bytes FROM media m WHERE m.media_id = place.media_id) > 262144
  AND NOT EXISTS (SELECT 1 FROM fixity f JOIN media m ON m.media_id = place.media_id
                  WHERE f.path_raw = place.path_raw AND place.member_raw = x''
                    AND f.size_bytes = place.file_size_bytes AND f.mtime_ns = place.mtime_ns
                    AND f.changed_at IS NULL AND f.hash = m.content_hash);

-- ---------------------------------------------------------------------------------- main places
--
-- A recording's main place: what is present comes before what is not, a file before a member of an
-- archive, then the oldest. Where the main one goes, one in its folder comes before others; where
-- none is present, the one that went last of those that vanished.
DROP TRIGGER place_insert;
CREATE TRIGGER place_insert AFTER INSERT ON place BEGIN
    UPDATE media SET
        place_id = iif(place_id IS NULL OR (new.state = 'present' AND (places = 0
                OR (new.member_raw <> x'', new.place_id) <
                   (SELECT p.member_raw <> x'', p.place_id FROM place p
                    WHERE p.place_id = media.place_id))), new.place_id, place_id),
        places = places + (new.state = 'present')
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places + (new.state = 'present'),
                             vanished = vanished + (new.state = 'vanished');
END;

DROP TRIGGER place_back;
CREATE TRIGGER place_back AFTER UPDATE OF state ON place
WHEN new.state = 'present' AND old.state <> 'present' BEGIN
    UPDATE media SET
        place_id = iif(places = 0 OR (new.member_raw <> x'', new.place_id) <
                   (SELECT p.member_raw <> x'', p.place_id FROM place p
                    WHERE p.place_id = media.place_id), new.place_id, place_id),
        places = places + 1
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places + 1, vanished = vanished - (old.state = 'vanished');
END;

DROP TRIGGER place_gone;
CREATE TRIGGER place_gone AFTER UPDATE OF state ON place
WHEN new.state <> 'present' AND old.state <> new.state BEGIN
    UPDATE media SET
        place_id = iif(place_id <> new.place_id, place_id,
            ifnull((SELECT p.place_id FROM place p
                    WHERE p.media_id = new.media_id AND (p.state = 'present'
                        OR (p.state = 'vanished' AND new.state = 'replaced'))
                    ORDER BY p.state = 'present' DESC, p.gone_at DESC, p.member_raw <> x'',
                        rtrim(p.path, replace(p.path, '/', '')) =
                            rtrim(new.path, replace(new.path, '/', '')) DESC,
                        p.place_id LIMIT 1),
                   place_id)),
        places = places - (old.state = 'present')
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places - (old.state = 'present'),
        vanished = vanished + (new.state = 'vanished') - (old.state = 'vanished');
END;

UPDATE media SET place_id = p.place_id
FROM (SELECT media_id AS of_media, min(place_id) AS place_id
      FROM place WHERE state = 'present' AND member_raw = x'' GROUP BY media_id) AS p
WHERE places > 1 AND media_id = p.of_media
  AND (SELECT o.member_raw <> x'' FROM place o WHERE o.place_id = media.place_id);
